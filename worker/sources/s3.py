"""Files in S3 and its like: Parquet in place, CSV through a copy.

Credentials come as AWS's own tools find them (environment, profile, the machine's role), or by
references in the address. `?endpoint_override=HOST:PORT&scheme=https&region=...` names another
server.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyarrow import fs

from qserver.errors import PrivateDataError
from worker.constants import WORKER
from worker.sources.address import resolved
from worker.sources.files import data_files, folder_values, is_csv_name, open_csv, open_csv_folder
from worker.sources.parquet import ParquetFiles
from worker.sources.source import Source, no_values_in_errors

_NAME = "The files in S3"


@contextmanager
def open_s3(text: str, *, folder: Path) -> Iterator[Source]:
    """An open file or prefix.

    Args:
        text: the address, with references to secrets.
        folder: where a CSV file is copied to, as a file without a name that dies with its reader.

    Raises:
        PrivateDataError: it cannot be reached, is not there, or cannot be read.
    """
    with no_values_in_errors(_NAME, _words):
        filesystem, path = fs.FileSystem.from_uri(resolved(text, quoted=True))
        found = filesystem.get_file_info(path)
        inside = []
        if found.type == fs.FileType.Directory:
            inside = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    if found.type == fs.FileType.NotFound:
        raise PrivateDataError("There is nothing in S3 at this address, or it may not be read.")
    if found.type == fs.FileType.Directory:
        files = data_files([i.path for i in inside if i.is_file], path, name="The folder in S3")
        if is_csv_name(files[0]):
            with _open_csv_prefix(filesystem, files, path, folder) as source:
                yield source
        else:
            yield ParquetFiles(files, filesystem, base=path, name=_NAME)
    elif path.endswith(".parquet"):
        yield ParquetFiles([path], filesystem, base="", name=_NAME)
    else:
        with _copy(filesystem, path, folder) as copy:
            file = open_csv(copy, name=Path(path).name)
            file.file = None
            yield file


@contextmanager
def _open_csv_prefix(
    filesystem: fs.FileSystem, files: Sequence[str], base: str, folder: Path
) -> Iterator[Source]:
    """All CSV files below a prefix, through copies of all of them."""
    with ExitStack() as stack:
        copies = [stack.enter_context(_copy(filesystem, file, folder)) for file in files]
        values = [folder_values(file, base) for file in files]
        yield open_csv_folder(copies, values, names=files, name=_NAME)


@contextmanager
def _copy(filesystem: fs.FileSystem, path: str, folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryFile(dir=folder) as file:
        # As it lies there: a packed file is unpacked by who reads it, by its name.
        with (
            no_values_in_errors(_NAME, _words),
            filesystem.open_input_stream(path, compression=None) as stream,
        ):
            shutil.copyfileobj(stream, file, WORKER.journal_chunk_bytes)
            file.flush()
        yield Path(f"/proc/self/fd/{file.fileno()}")


def _words(error: Exception) -> str:
    text = str(error)
    if "ACCESS_DENIED" in text or "403" in text or "INVALID_ACCESS_KEY" in text:
        return "may not be read with these credentials."
    if "NETWORK_CONNECTION" in text or "curlCode" in text:
        return "cannot be reached: the server does not answer."
    return f"cannot be read ({type(error).__name__})."
