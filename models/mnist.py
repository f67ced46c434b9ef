"""The handwritten digits that several recipes learn from: 20,000 of MNIST's training images, 28 x 28."""
import gzip

import torch

SIDE = 28
HELD_OUT = 4000  # the last ones of the file


def read_idx(path, begin):
    return torch.frombuffer(bytearray(gzip.decompress(path.read_bytes())[begin:]), dtype=torch.uint8)


def read_digits(data):
    """-> images [20000, 28, 28] of 0 (paper) .. 255 (ink), labels [20000], in the file's order."""
    images = read_idx(data / "mnist-20k-images-idx3-ubyte.gz", 16).view(-1, SIDE, SIDE)
    return images, read_idx(data / "mnist-20k-labels-idx1-ubyte.gz", 8).long()


def split(every):
    """-> what is learnt from, what is held out."""
    return every[:-HELD_OUT], every[-HELD_OUT:]
