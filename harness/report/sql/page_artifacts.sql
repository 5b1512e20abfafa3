SELECT cell, kind, path, bytes, sha256 FROM artifact ORDER BY cell, kind
