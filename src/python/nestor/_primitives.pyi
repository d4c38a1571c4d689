# Made of the table of primitives by tests/python/stub_test.py (NESTOR_UPDATE=1); not by hand.
from typing import Any, List, Sequence, Tuple, TypeVar, Union

_S = TypeVar("_S", bound="Primitives")
_Names = Union[str, List[str], Tuple[str, ...], None]

def word(value: Any, kinds: Sequence[str] = ...) -> str: ...

class Primitives:
    _native: Any

    def split(self: _S, loop: str, ints: Union[str, Sequence[Union[int, str, None]]], *, results: _Names = ..., tail: str = ..., at_lines: Any = ..., **options: Any) -> _S:
        """Splits a loop into nested loops. `_` is computed; if the factors don't divide the extent, the last tile is partial.

            i0 i1 ... = split T.i [_, 16] tail=guard|peel|mask|balanced at_lines=B
        """
        ...

    def fuse(self: _S, *loops: Union[str, Sequence[str]], results: _Names = ..., **options: Any) -> _S:
        """Fuses directly nested loops into one, in the same order.

            g = fuse T (i j ...)
        """
        ...

    def reorder(self: _S, *loops: Union[str, Sequence[str]], results: _Names = ..., **options: Any) -> _S:
        """Changes the order of loops around one block; loops that aren't named keep their places.

            reorder T (j i ...)
        """
        ...

    def tile(self: _S, *loops: Union[str, Sequence[str]], results: _Names = ..., tail: str = ..., **options: Any) -> _S:
        """Splits several loops by one factor each, and moves the inner loops inside.

            i0 j0 ... i1 j1 ... = tile T (i j ...) [16, 32] tail=guard|peel|mask|balanced
        """
        ...

    def parallel(self: _S, loop: str, *, results: _Names = ..., **options: Any) -> _S:
        """Distributes the iterations of a loop over threads, in no particular order.

            parallel T.i
        """
        ...

    def vectorize(self: _S, loop: str, *, results: _Names = ..., **options: Any) -> _S:
        """Turns the iterations of a loop into lanes of vectors. On CUDA one thread does them all; loads and stores of neighbours that make up 4, 8 or 16 aligned bytes become one access.

            vectorize T.i
        """
        ...

    def unroll(self: _S, *loops: Union[str, Sequence[str]], results: _Names = ..., **options: Any) -> _S:
        """Unrolls loops completely.

            unroll T (i j ...) | T.i
        """
        ...

    def bind(self: _S, loop: str, word: str, *, results: _Names = ..., **options: Any) -> _S:
        """Binds a loop to the blocks or threads of a GPU.

            bind T.i threadIdx.x
        """
        ...

    def reduce_threads(self: _S, loop: str, *, results: _Names = ..., **options: Any) -> _S:
        """Spreads a reduction over the threads of a GPU block. Each iteration of the loop becomes a thread that reduces its own part; then all threads combine their results by shuffles in a fixed order.

            T_part = reduce_threads T.k
        """
        ...

    def compute_at(self: _S, block: str, location: str, *, results: _Names = ..., tail: str = ..., **options: Any) -> _S:
        """Moves a producer into a loop of its consumers, where it computes what that iteration reads. Its loops there are new and serial.

            n c h w ... = compute_at P T.i tail=full|guard
        """
        ...

    def reverse_compute_at(self: _S, block: str, location: str, *, results: _Names = ..., **options: Any) -> _S:
        """Moves a consumer into a loop of its producers, where it reads what that iteration has completed. Its loops there are new and serial.

            n c h w ... = reverse_compute_at C T.i
        """
        ...

    def compute_inline(self: _S, block: str, *, results: _Names = ..., **options: Any) -> _S:
        """Removes a producer; its consumers compute its values themselves.

            compute_inline P
        """
        ...

    def reverse_compute_inline(self: _S, block: str, *, results: _Names = ..., **options: Any) -> _S:
        """Removes a consumer; the block that computes its input computes its result directly.

            reverse_compute_inline C
        """
        ...

    def cache_read(self: _S, block: str, buffer: str, word: str, *, results: _Names = ..., readers: str = ..., **options: Any) -> _S:
        """Makes a block read a copy of a buffer; a new block before it makes the copy.

            XS = cache_read T X global|shared|local readers=one|all
        """
        ...

    def cache_write(self: _S, block: str, word: str, *, results: _Names = ..., **options: Any) -> _S:
        """Makes a block compute into a new buffer; a new block after it copies the result to the old one.

            C = cache_write T global|shared|local
        """
        ...

    def set_scope(self: _S, buffer: str, word: str, *, results: _Names = ..., **options: Any) -> _S:
        """Sets where a temporary is stored: memory, shared memory of a GPU block, or registers.

            set_scope X global|shared|local
        """
        ...

    def decompose_reduction(self: _S, loop: str, *, results: _Names = ..., **options: Any) -> _S:
        """Makes the init of a reduction a block of its own, directly before a loop.

            T0 = decompose_reduction T.k
        """
        ...

    def rfactor(self: _S, loop: str, *, results: _Names = ..., axis: Union[int, str] = ..., **options: Any) -> _S:
        """Factors a reduction over a loop: a new block computes a partial result for each iteration, and the old block reduces these.

            T_rf = rfactor T.k axis=INT
        """
        ...

    def fission(self: _S, loop: str, *, results: _Names = ..., at: Any = ..., **options: Any) -> _S:
        """Distributes a loop over its statements: one loop for each, or two loops, cut after a given block.

            i0 i1 ... = fission T.i at=BLOCK
        """
        ...

    def merge(self: _S, loop1: str, loop2: str, *, results: _Names = ..., **options: Any) -> _S:
        """Merges two adjacent loops of the same extent into one.

            i = merge T.i Y.i
        """
        ...

    def annotate(self: _S, target: str, *, results: _Names = ..., streaming: Any = ..., in_place: Any = ..., peel: Any = ..., whole: Any = ..., chains: Union[int, str] = ..., split: str = ..., threads: Union[int, str] = ..., note: Any = ..., **options: Any) -> _S:
        """Attaches a hint for lowering to a loop or block: a key and a value.

            annotate T.i | T streaming=1|0 in_place=X peel=1|0 whole=1|0 chains=INT split=static|dynamic threads=INT note=VALUE
        """
        ...

    def transform_layout(self: _S, buffers: Union[str, Sequence[str]], map: str, *, results: _Names = ..., pad: Union[int, str] = ..., **options: Any) -> _S:
        """Changes the order in which the elements of a const parameter or a temporary are stored.

            transform_layout X ... (o, c) -> (o/32, c, o%32) pad=INT
        """
        ...

    def sample_factors(self: _S, loop: str, *decision: Any, results: _Names = ..., parts: Union[int, str] = ..., max: Union[int, str] = ..., **options: Any) -> _S:
        """Names factors of a loop's extent, as a decision that the tuner may change.

            f0 f1 ... = sample_factors T.i parts=INT max=INT -> [4, 16]
        """
        ...

    def sample_choice(self: _S, words: Union[str, Sequence[Any]], *decision: Any, results: _Names = ..., **options: Any) -> _S:
        """Names one of several values, as a decision that the tuner may change.

            v = sample_choice [1, 2, 4] -> 2
        """
        ...

    def loop_partition(self: _S, loop: str, ints: Union[str, Sequence[Union[int, str, None]]], *, results: _Names = ..., **options: Any) -> _S:
        """Cuts a loop into consecutive loops over parts of its range; the later ones get copies of the blocks.

            T1 T2 ... = loop_partition T.i [16, 48]
        """
        ...

    def split_buffer(self: _S, block: str, *, results: _Names = ..., **options: Any) -> _S:
        """Gives the part of a temporary that one block writes a buffer of its own; blocks that access this part use the new buffer.

            T_part = split_buffer T
        """
        ...

    def add_unit_loop(self: _S, target: str, *, results: _Names = ..., **options: Any) -> _S:
        """Adds a loop of one iteration around a block or a loop.

            u = add_unit_loop T.i | T
        """
        ...

    def sample_location(self: _S, block: str, *decision: Any, results: _Names = ..., by: str = ..., **options: Any) -> _S:
        """Names the place where a block is computed, as a decision that the tuner may change.

            l = sample_location P by=compute_at|reverse_compute_at -> T.i
        """
        ...

    def blockize(self: _S, loop: str, *, results: _Names = ..., **options: Any) -> _S:
        """Turns a loop and all inside of it into one block, a tile, which moves as a unit.

            T_o = blockize T.i
        """
        ...

    def pad_einsum(self: _S, block: str, ints: Union[str, Sequence[Union[int, str, None]]], *, results: _Names = ..., **options: Any) -> _S:
        """Pads the iterators of a block to multiples: it reads padded copies of its inputs, and the valid part of its padded output is copied back.

            A_pad ... T_trim = pad_einsum T [16, 16, 4]
        """
        ...

    def storage_align(self: _S, buffer: str, integer1: Union[int, str], integer2: Union[int, str], integer3: Union[int, str], *, results: _Names = ..., **options: Any) -> _S:
        """Pads the stride of a dimension of a temporary in memory, so that stride % factor == offset.

            storage_align T dim factor offset
        """
        ...

    def reindex(self: _S, block: str, buffer: str, *, results: _Names = ..., **options: Any) -> _S:
        """Copies a buffer in the order of a block: the copy has one dimension for each iterator in the index.

            XR = reindex T X
        """
        ...

    def pack(self: _S, target: str, buffer: str, map: str, *, results: _Names = ..., scope: str = ..., pad: Union[int, str] = ..., **options: Any) -> _S:
        """Packs what a block reads of a buffer in a loop: copies it in the order in which it is read.

            XP = pack T.i | T X (i, k) -> (i/14, k, i%14) scope=global|shared|local pad=INT
        """
        ...

    def prefetch(self: _S, loop: str, buffer: str, *, results: _Names = ..., distance: Union[int, str] = ..., shares: Any = ..., each: str = ..., **options: Any) -> _S:
        """Prefetches what a later iteration of a loop reads or writes of a buffer.

            prefetch T.k X distance=INT shares=LOOP each=line|page
        """
        ...

    def software_pipeline(self: _S, loop: str, *, results: _Names = ..., stages: Union[int, str] = ..., through: str = ..., **options: Any) -> _S:
        """Makes the copies at the start of an iteration while earlier iterations compute. Bind the loops of the copies to threads before this step. Otherwise the first copies must be bound too, and a warning lists the steps.

            X0 ... = software_pipeline T.k stages=INT through=registers
        """
        ...

    def tensorize(self: _S, loop: str, word: str, *, results: _Names = ..., from_: Any = ..., **options: Any) -> _S:
        """Replaces a loop and all inside of it, a tile, by a hardware instruction.

            T_o = tensorize T.i INSTRUCTION from=FILE
        """
        ...

    def skip_zeros(self: _S, block: str, *, results: _Names = ..., masks: Any = ..., **options: Any) -> _S:
        """Skips the terms of a sum in which a factor `if c then a else 0` is 0; the other factor is assumed to be finite.

            skip_zeros T masks=LOOP
        """
        ...
