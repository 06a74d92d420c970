"""Certificates for tests of TLS."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Certificates", "make_certificates"]


@dataclass(frozen=True)
class Certificates:
    """Files of an authority and of what it signed: a server (localhost, 127.0.0.1, ::1) and a client."""

    ca: str
    server_cert: str
    server_key: str
    client_cert: str
    client_key: str


def make_certificates(folder: Path) -> Certificates:
    """Makes certificates with the command `openssl`, valid for two days."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise FileNotFoundError("making certificates needs the command openssl")

    def run(*words: str) -> None:
        subprocess.run([openssl, *words], cwd=folder, check=True, capture_output=True)

    def new_key(name: str) -> tuple[str, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key")

    run(
        *("req", "-x509", *new_key("ca"), "-out", "ca.crt", "-days", "2", "-subj", "/CN=holdtight tests"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
    )
    for name, usage in (("server", "serverAuth"), ("client", "clientAuth")):
        extensions = (
            "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
            f"extendedKeyUsage={usage}\nsubjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n"
            "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        (folder / f"{name}.ext").write_text(extensions)
        run("req", *new_key(name), "-out", f"{name}.csr", "-subj", f"/CN={name}")
        run(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-out", f"{name}.crt", "-days", "2", "-extfile", f"{name}.ext"),
        )
    files = ("ca.crt", "server.crt", "server.key", "client.crt", "client.key")
    return Certificates(*(str(folder / name) for name in files))
