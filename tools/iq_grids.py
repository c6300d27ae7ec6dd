#!/usr/bin/env python3
"""iq_grids.py - makes src/tensor/iq_grids.c from the gguf package: the codebooks of the IQ2 and IQ3 formats.

    tools/iq_grids.py > src/tensor/iq_grids.c        needs Python with gguf and numpy

An entry holds eight numbers of two bits or four numbers of three bits, the first in the lowest bits, as indices of the
few magnitudes that a format has.
"""
from gguf import quants

GRIDS = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]
PER_LINE = 12


def entries(kind):
    kind.init_grid()
    levels = list(kind.grid_map)
    bits = 2 if len(levels) == 3 else 3
    rows = kind.grid.reshape(kind.grid_shape).astype(int).tolist()
    return [sum(levels.index(v) << bits * i for i, v in enumerate(row)) for row in rows]


def main():
    print("""/* iq_grids.c - the codebooks of IQ2 and IQ3, made by tools/iq_grids.py: numbers that the
 * formats' author chose and that every reader must have. */
#include "tensor/iq_grids.h"

/* clang-format off */""")
    for name in GRIDS:
        found = entries(getattr(quants, name))
        print(f"\nconst uint16_t {name.lower()}_grid[{len(found)}] = {{")
        for i in range(0, len(found), PER_LINE):
            print("    " + " ".join(f"{v}," for v in found[i:i + PER_LINE]))
        print("};")
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
