"""Makes a wheel of a folder: python3 wheel.py FOLDER FILE LEVEL. RECORD is written, the rest is packed as it is."""

import base64
import hashlib
import pathlib
import sys
import zipfile

folder, target, level = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
files = sorted(path for path in folder.rglob("*") if path.is_file())
record = next(path for path in folder.iterdir() if path.name.endswith(".dist-info")) / "RECORD"
lines = []
with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as wheel:

    def add(path, data):
        # Dates and owners are left out: the same files make the same wheel.
        name = path.relative_to(folder).as_posix()
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        # pip makes a regular file executable that is one here.
        entry.external_attr = (0o100755 if ".data/scripts/" in name else 0o100644) << 16
        wheel.writestr(entry, data)
        return name

    for path in files:
        data = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{add(path, data)},sha256={digest},{len(data)}")
    lines.append(f"{record.relative_to(folder).as_posix()},,")
    add(record, ("\n".join(lines) + "\n").encode())
