#!/usr/bin/env python3
"""image_golden.py - pictures in every kind of PNG and JPEG, and what PIL and transformers make of them.

    python tools/image_golden.py tests/golden/images

Needs numpy, safetensors, transformers and Pillow 10 (13 resizes columns first where pictures get flatter and wider).
Each picture NAME becomes NAME in expected.safetensors: its pixels as PIL's convert() gives them. "resize.FILTER.HxW" are resized bytes, "vit" and "deit" are what the processors give for
photo.png, "grey" its grey.
"""
import io
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import save_file
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(samples, depth, colour, interlaced=False, extra=b""):
    """PIL cannot write these: samples [H, W, C], packed to `depth` bits, unfiltered."""
    h, w, c = samples.shape

    def rows(part):
        out = b""
        for row in part.reshape(part.shape[0], -1):
            if depth == 16:
                out += b"\0" + row.astype(">u2").tobytes()
            else:
                bits = "".join(format(int(v), f"0{depth}b") for v in row)
                bits += "0" * (-len(bits) % 8)
                out += b"\0" + bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
        return out

    if interlaced:
        parts = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7]
        raw = b"".join(rows(p) for p in parts if p.size)
    else:
        raw = rows(samples)
    head = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(raw, 9)) +
            chunk(b"IEND", b""))


def photo(h, w):
    """Smooth and sharp parts, all colours."""
    y, x = np.mgrid[0:h, 0:w]
    red = 127 + 120 * np.sin(x / 5.0) * np.cos(y / 7.0)
    green = (x * 255 / w + (y // 4 % 2) * 40) % 256
    blue = np.where((x - w / 2) ** 2 + (y - h / 2) ** 2 < (h / 3) ** 2, 230, 20 + 3 * y % 200)
    return np.stack([red, green, blue], -1).clip(0, 255).astype(np.uint8)


def main(to):
    to = Path(to)
    to.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    files = {}
    small = photo(13, 11)
    for depth in (1, 2, 4, 8, 16):
        files[f"grey{depth}.png"] = png(rng.integers(0, 1 << depth, (13, 11, 1)), depth, 0)
    palette = chunk(b"PLTE", rng.integers(0, 256, 16 * 3, dtype=np.uint8).tobytes())
    files["palette4.png"] = png(rng.integers(0, 16, (13, 11, 1)), 4, 3, False, palette)
    files["palette-trns.png"] = png(rng.integers(0, 16, (13, 11, 1)), 4, 3, False,
                                    palette + chunk(b"tRNS", bytes([0, 128, 255])))
    files["rgb16.png"] = png(rng.integers(0, 1 << 16, (13, 11, 3)), 16, 2)
    files["rgb-interlaced.png"] = png(small, 8, 2, True)
    files["grey1-interlaced.png"] = png(rng.integers(0, 2, (13, 11, 1)), 1, 0, True)
    files["grey-alpha.png"] = png(rng.integers(0, 256, (13, 11, 2)), 8, 4)
    files["rgba.png"] = png(rng.integers(0, 256, (13, 11, 4)), 8, 6)
    files["rgb-trns.png"] = png(small, 8, 2, False, chunk(b"tRNS", struct.pack(">HHH", *map(int, small[0, 0]))))
    files["one-pixel.png"] = png(small[:1, :1], 8, 2)

    def saved(image, **options):
        out = io.BytesIO()
        image.save(out, **options)
        return out.getvalue()

    rgb = Image.fromarray(photo(61, 83))
    files["photo.png"] = saved(rgb, format="PNG", optimize=True)
    files["photo.jpg"] = saved(rgb, format="JPEG", quality=85)
    files["photo-444.jpg"] = saved(rgb, format="JPEG", quality=70, subsampling=0)
    files["photo-progressive.jpg"] = saved(rgb, format="JPEG", quality=75, progressive=True)
    files["grey.jpg"] = saved(rgb.convert("L"), format="JPEG", quality=80)
    files["cmyk.jpg"] = saved(rgb.convert("CMYK"), format="JPEG", quality=50)

    expected = {}
    for name, data in files.items():
        (to / name).write_bytes(data)
        image = Image.open(io.BytesIO(data))
        if name == "cmyk.jpg":
            continue
        if name == "grey16.png":  # PIL cuts these at 255 instead of dropping the low byte
            expected[name] = (np.asarray(image).astype(np.int64) >> 8).astype(np.uint8)[..., None]
            continue
        is_grey = image.mode in ("1", "L", "LA")
        pixels = np.asarray(image.convert("L" if is_grey else "RGB"))
        expected[name] = np.ascontiguousarray(pixels.reshape(image.height, image.width, -1))
    expected["grey"] = np.ascontiguousarray(np.asarray(rgb.convert("L"))[..., None])
    for number, filter in ((1, "lanczos"), (2, "bilinear"), (3, "bicubic")):
        for h, w in ((24, 24), (61, 40), (70, 83), (64, 90), (7, 120), (1, 1)):
            resized = rgb.resize((w, h), resample=Image.Resampling(number))
            expected[f"resize.{filter}.{h}x{w}"] = np.ascontiguousarray(np.asarray(resized))
    bigger = rgb.convert("L").resize((31, 29), resample=Image.Resampling.BILINEAR)
    expected["resize.grey"] = np.ascontiguousarray(np.asarray(bigger)[..., None])

    vit = ViTImageProcessorPil(size={"height": 32, "width": 48}, image_mean=[0.485, 0.456, 0.406],
                               image_std=[0.229, 0.224, 0.225])
    deit = DeiTImageProcessorPil(size={"height": 40, "width": 40}, crop_size={"height": 32, "width": 24})
    for name, processor in (("vit", vit), ("deit", deit)):
        processor.save_pretrained(to / name)
        expected[name] = np.ascontiguousarray(processor(rgb, return_tensors="np")["pixel_values"][0])
    save_file(expected, to / "expected.safetensors")


main(sys.argv[1])
