"""The dashboard's settings: a YAML file, then MUSTER_DASHBOARD_* variables, then flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from extender.config.settings import FromFile, load_as
from extender.config.tls_files import TlsFiles
from extender.config.values import DASHBOARD_AUDIENCE, File

PREFIX = "MUSTER_DASHBOARD_"
PORT = 10292


class Settings(FromFile):
    """Everything about one running dashboard."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    listen_host: str = Field("127.0.0.1", description="Address to listen on.")
    listen_port: int = Field(PORT, ge=0, le=65535, description="Port to listen on.")
    tls_cert_file: File = Field(
        None, description="Serve HTTPS with this certificate (PEM, with its chain). Read again when it changes."
    )
    tls_key_file: File = Field(None, description="The key of that certificate (PEM, not encrypted).")
    kubeconfig: File = Field(None, description="Credentials. Default: as kubectl finds them, else those of the pod.")
    extender: str = Field(
        "system:serviceaccount:kube-system:muster-scheduler",
        min_length=1,
        description="The user that sends the updates: the ServiceAccount of Muster's pods.",
    )
    audience: str = Field(DASHBOARD_AUDIENCE, min_length=1, description="The audience that tokens of that user have.")
    log_format: str = Field("text", pattern="^(text|json)$", description="json: one object to a line.")
    log_level: str = Field(
        "info", pattern="^(debug|info|warning|error)$", description="From this level on lines are written."
    )

    @model_validator(mode="after")
    def _both_files(self) -> Self:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file need each other")
        return self

    @property
    def tls(self) -> TlsFiles | None:
        """The files of TLS; None: plain HTTP, for loopback, or behind something that ends TLS."""
        if self.tls_cert_file is None or self.tls_key_file is None:
            return None
        return TlsFiles(self.tls_cert_file, self.tls_key_file)


def load(path: Path | None, **flags: Any) -> Settings:
    """Read the settings; a flag that is not None wins over everything. Raises SettingsError."""
    return load_as(Settings, path, flags)
