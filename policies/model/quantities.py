"""Kubernetes quantities ("500m", "1.5", "40Gi", "1e3"), exactly."""

from __future__ import annotations

import re
from fractions import Fraction

_SHAPE = re.compile(r"([+-]?)([0-9]{1,40})?(?:\.([0-9]{0,40}))?([eE][+-]?[0-9]{1,3}|[numkMGTPE]|[KMGTPE]i)?", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def exact(quantity: str | float) -> Fraction:
    """The quantity exactly as written. Raises ValueError if it is none."""
    text = str(quantity)
    match = _SHAPE.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"{text[:40]!r} is not a quantity")
    sign, whole_digits, digits, suffix = match[1], match[2] or "", match[3] or "", match[4] or ""
    number = Fraction(int(whole_digits + digits), 10 ** len(digits))
    if sign == "-":
        number = -number
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return number * Fraction(10) ** exponent
