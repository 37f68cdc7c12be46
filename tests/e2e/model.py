"""A byte-exact model of a region of a device, and the random I/O that it judges.

Each block that is written carries the seed, its number and the generation of the write, again and again to its end. So
a wrong block says what it is: an older generation (a lost write, or stale data put back), another block's data, a
buffer that nobody filled, or rubbish. Generation 0 is zeroes.

Only what was acknowledged is judged. After a write that failed, and after a discard whose result the backing leaves
open, a block may be one of two generations; the first read tells which, and from then on it is that one.
"""

import random
import struct

from disk import UNWRITTEN

HEADER = struct.Struct("<QQQQ")
MAGIC = 0x6C65646F6D206B6C
ZEROES = 0


class Mismatch(AssertionError):
    """A block that reads as nothing it may be."""


class Model:
    """What the blocks [0, blocks) of a region must read as. One thread."""

    def __init__(self, blocks, block_bytes, seed, first_block=0):
        self.blocks = blocks
        self.block_bytes = block_bytes
        self.seed = seed
        self.first_block = first_block
        self.generation = 0
        self.current = [ZEROES] * blocks
        self.open = {}  # block -> the generations it may be
        self.content = bytearray(blocks * block_bytes)

    def block(self, number, generation):
        """The bytes of a block as that generation wrote it."""
        if generation == ZEROES:
            return bytes(self.block_bytes)
        header = HEADER.pack(MAGIC, self.seed, self.first_block + number, generation)
        return header * (self.block_bytes // HEADER.size)

    def new_data(self, first, count):
        """Data for a write of a new generation; the model does not know it before wrote() or failed()."""
        self.generation += 1
        return b"".join(self.block(number, self.generation) for number in range(first, first + count))

    def wrote(self, first, data):
        """data, the newest new_data, was acknowledged."""
        self._set(first, len(data) // self.block_bytes, self.generation)
        begin = first * self.block_bytes
        self.content[begin:begin + len(data)] = data

    def failed(self, first, count):
        """The write of the newest data was refused: each block is as before or new."""
        for number in range(first, first + count):
            self.open.setdefault(number, {self.current[number]}).add(self.generation)

    def zeroed(self, first, count):
        self._set(first, count, ZEROES)
        begin = first * self.block_bytes
        self.content[begin:begin + count * self.block_bytes] = bytes(count * self.block_bytes)

    def discarded(self, first, count):
        """The backing did with the range what it likes: each block is as before or zeroes."""
        for number in range(first, first + count):
            self.open.setdefault(number, {self.current[number]}).add(ZEROES)

    def _set(self, first, count, generation):
        self.current[first:first + count] = [generation] * count
        for number in range(first, first + count) if self.open else ():
            self.open.pop(number, None)

    def check(self, first, data):
        """data was read from block first on. Raises Mismatch."""
        begin = first * self.block_bytes
        if self.content[begin:begin + len(data)] == data:
            for number in range(first, first + len(data) // self.block_bytes) if self.open else ():
                self.open.pop(number, None)
            return
        for number in range(first, first + len(data) // self.block_bytes):
            at = (number - first) * self.block_bytes
            self._check_block(number, data[at:at + self.block_bytes])

    def _check_block(self, number, found):
        for generation in self.open.pop(number, {self.current[number]}):
            if found == self.block(number, generation):
                self._adopt(number, generation, found)
                return
        raise Mismatch(f"block {number} (of {self.block_bytes} B, region from block {self.first_block}, "
                       f"seed {self.seed}): expected generation {self.current[number]}, "
                       f"found {self.explain(number, found)}")

    def _adopt(self, number, generation, found):
        self.current[number] = generation
        self.content[number * self.block_bytes:(number + 1) * self.block_bytes] = found

    def explain(self, number, found):
        if not any(found):
            return "zeroes"
        if found.count(UNWRITTEN) == len(found):
            return "the pattern of the reader's buffer: nobody wrote it"
        magic, seed, block, generation = HEADER.unpack_from(found)
        if magic != MAGIC:
            return f"rubbish: {found[:32].hex(' ', 8)} ..."
        whole = found == found[:HEADER.size] * (len(found) // HEADER.size)
        part = "" if whole else "the beginning of "
        if seed != self.seed:
            return f"{part}data of another run, seed {seed}"
        if block != self.first_block + number:
            return f"{part}block {block - self.first_block} of generation {generation}"
        age = "stale" if generation < self.current[number] else "a later write"
        return f"{part}generation {generation}: {age}"


class RandomIo:
    """A seeded mix of operations on a region of a disk, each judged by the model."""

    WEIGHTS = {"write": 40, "read": 35, "discard": 8, "zero": 8, "unmap": 5, "flush": 4}

    def __init__(self, disk, begin_bytes, blocks, block_bytes, seed, discard_zeroes, without=()):
        self.disk = disk
        self.begin_bytes = begin_bytes
        self.random = random.Random(seed)
        self.model = Model(blocks, block_bytes, seed, begin_bytes // block_bytes)
        self.discard_zeroes = discard_zeroes
        self.ops = {op: weight for op, weight in self.WEIGHTS.items() if op not in without}

    def place(self):
        """A range on the block grid: lengths of each power of two are equally likely, up to 256 KiB."""
        blocks_max = min(self.model.blocks, (256 << 10) // self.model.block_bytes)
        count = min(blocks_max, 1 + int(2 ** (self.random.random() * blocks_max.bit_length()) - 1))
        return self.random.randrange(self.model.blocks - count + 1), count

    def step(self):
        op = self.random.choices(list(self.ops), self.ops.values())[0]
        first, count = self.place()
        offset = self.begin_bytes + first * self.model.block_bytes
        length = count * self.model.block_bytes
        align = self.random.choice((512, 1024, 4096))
        if op == "read":
            self.model.check(first, self.disk.read(offset, length, align))
        elif op == "write":
            data = self.model.new_data(first, count)
            self.disk.write(offset, data, align)
            self.model.wrote(first, data)
        elif op == "flush":
            self.disk.flush()
        elif op == "discard":
            self.disk.discard(offset, length)
            (self.model.zeroed if self.discard_zeroes else self.model.discarded)(first, count)
        else:
            getattr(self.disk, op)(offset, length)
            self.model.zeroed(first, count)

    def run(self, steps):
        for _ in range(steps):
            self.step()

    def check_all(self, disk=None):
        """Reads the whole region, from another open of the device where one is given."""
        part = (1 << 20) // self.model.block_bytes
        for first in range(0, self.model.blocks, part):
            count = min(part, self.model.blocks - first)
            offset = self.begin_bytes + first * self.model.block_bytes
            self.model.check(first, (disk or self.disk).read(offset, count * self.model.block_bytes))
