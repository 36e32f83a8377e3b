"""How a command ends that has failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer


def stop(message: str) -> NoReturn:
    """End with a sentence and exit code 2."""
    typer.secho(message, err=True, fg="red")
    raise typer.Exit(2)


@contextmanager
def stop_on(*errors: type[Exception]) -> Iterator[None]:
    """Stop with the message of such an error. After Ctrl-C end with exit code 130."""
    try:
        yield
    except errors as error:
        stop(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
