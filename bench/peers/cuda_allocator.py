"""Simulates PyTorch's caching allocator without a GPU: bytes reserved for a sequence of allocations.

    a = Allocator(expandable=True)      # PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, as torchtitan sets it
    a.allocate("x", 1 << 30, stream=0); a.free("x"); a.reserved, a.peak

A pool for small (up to 1 MiB) and for large blocks of every stream. A request splits the smallest free block that
is large enough; else memory is reserved from the device, as a new segment or at the end of an expandable one. Nothing is
returned to the device, which is assumed to be large enough.
"""
import bisect

MIB = 1 << 20


def up(n, unit):
    return -(-n // unit) * unit


class Pool:
    """Blocks by address; free blocks by (size, address)."""

    def __init__(self, small, expandable):
        self.small, self.expandable = small, expandable
        self.end = 0  # end of all addresses handed out
        self.size, self.before, self.after, self.is_free = {}, {}, {}, {}
        self.free_blocks = []
        self.tail = None

    def _add(self, at, size, before, after, free):
        self.size[at], self.before[at], self.after[at], self.is_free[at] = size, before, after, free
        if before is not None:
            self.after[before] = at
        if after is not None:
            self.before[after] = at
        if free:
            bisect.insort(self.free_blocks, (size, at))

    def _take(self, at):
        self.free_blocks.pop(bisect.bisect_left(self.free_blocks, (self.size[at], at)))
        self.is_free[at] = False

    def allocate(self, n):
        """Returns the address, and the bytes newly reserved from the device."""
        grown = 0
        i = bisect.bisect_left(self.free_blocks, (n, -1))
        if i < len(self.free_blocks):
            at = self.free_blocks[i][1]
            self._take(at)
        elif self.expandable:
            unit = 2 * MIB if self.small else 20 * MIB
            at = self.tail
            if at is not None and self.is_free[at]:
                grown = up(n - self.size[at], unit)
                self._take(at)
                self.size[at] += grown
            else:
                grown, at = up(n, unit), self.end
                self._add(at, grown, self.tail, None, False)
            self.end += grown
            self.tail = at
        else:
            grown = 2 * MIB if self.small else 20 * MIB if n < 10 * MIB else up(n, 2 * MIB)
            at = self.end
            self.end += grown + 1  # a gap, so that segments never merge
            self._add(at, grown, None, None, False)
        rest = self.size[at] - n
        if rest > 0 and (self.small or self.expandable or rest > MIB):
            after = self.after[at]
            self.size[at] = n
            self._add(at + n, rest, at, after, True)
            if self.tail == at:
                self.tail = at + n
        return at, grown

    def release(self, at):
        before, after = self.before[at], self.after[at]
        size = self.size[at]
        if after is not None and self.is_free[after]:
            self._take(after)
            size += self.size[after]
            if self.tail == after:
                self.tail = at
            after = self.after[after]
        if before is not None and self.is_free[before]:
            self._take(before)
            size += self.size[before]
            if self.tail == at:
                self.tail = before
            at, before = before, self.before[before]
        self._add(at, size, before, after, True)


class Allocator:
    def __init__(self, expandable=True):
        self.expandable = expandable
        self.pools, self.held = {}, {}
        self.reserved = self.peak = self.allocated = self.peak_allocated = 0

    def allocate(self, key, n, stream=0):
        n = up(max(n, 512), 512)
        where = (stream, n <= MIB)
        pool = self.pools.setdefault(where, Pool(n <= MIB, self.expandable))
        at, grown = pool.allocate(n)
        self.held[key] = (pool, at, n)
        self.reserved += grown
        self.allocated += n
        self.peak, self.peak_allocated = max(self.peak, self.reserved), max(self.peak_allocated, self.allocated)

    def free(self, key):
        pool, at, n = self.held.pop(key)
        pool.release(at)
        self.allocated -= n
