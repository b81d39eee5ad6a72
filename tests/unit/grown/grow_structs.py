#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ferry.h of a later version: each struct in the table of ferry/sizes.h has one more field at its end.

grow_structs.py ferry.h sizes.h OUTPUT
"""
import re
import sys

header, sizes, output = sys.argv[1:]
text = open(header).read()
names = set(re.findall(r"sizeof\(struct (ferry_\w+)\)", open(sizes).read())) - {"ferry_sizes"}
for name in names:
    text, n = re.subn(r"^(struct %s \{.*?)^\};" % name, r"\1        char later[64];\n};", text, flags=re.M | re.S)
    assert n == 1, name
open(output, "w").write(text)
