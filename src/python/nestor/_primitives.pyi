# Made of the table of primitives by tests/python/stub_test.py (NESTOR_UPDATE=1); not by hand.
from typing import Any, List, Sequence, Tuple, TypeVar, Union

_S = TypeVar("_S", bound="Primitives")
_Names = Union[str, List[str], Tuple[str, ...], None]

def word(value: Any, kinds: Sequence[str] = ...) -> str: ...

class Primitives:
    _native: Any

    def split(self: _S, loop: str, ints: Union[str, Sequence[Union[int, str, None]]], *, results: _Names = ..., tail: str = ..., at_lines: Any = ..., **options: Any) -> _S:
        """One loop becomes several nested ones; `_` is computed, and a size that doesn't divide leaves a tail.

            i0 i1 ... = split T.i [_, 16] tail=guard|peel|mask|balanced at_lines=B
        """
        ...

    def fuse(self: _S, *loops: Union[str, Sequence[str]], results: _Names = ..., **options: Any) -> _S:
        """Directly nested loops become one, in the same order.

            g = fuse T (i j ...)
        """
        ...

    def reorder(self: _S, *loops: Union[str, Sequence[str]], results: _Names = ..., **options: Any) -> _S:
        """Loops around one block change places; those not named keep theirs.

            reorder T (j i ...)
        """
        ...

    def tile(self: _S, *loops: Union[str, Sequence[str]], results: _Names = ..., tail: str = ..., **options: Any) -> _S:
        """Several loops are split by one factor each, and the inner ones brought inside.

            i0 j0 ... i1 j1 ... = tile T (i j ...) [16, 32] tail=guard|peel|mask|balanced
        """
        ...

    def parallel(self: _S, loop: str, *, results: _Names = ..., **options: Any) -> _S:
        """Iterations of the loop run on several threads, in no order.

            parallel T.i
        """
        ...

    def vectorize(self: _S, loop: str, *, results: _Names = ..., **options: Any) -> _S:
        """Iterations of the loop become lanes of vectors.

            vectorize T.i
        """
        ...

    def unroll(self: _S, *loops: Union[str, Sequence[str]], results: _Names = ..., **options: Any) -> _S:
        """The iterations' bodies stand one after another.

            unroll T (i j ...) | T.i
        """
        ...

    def bind(self: _S, loop: str, word: str, *, results: _Names = ..., **options: Any) -> _S:
        """Iterations of the loop run on the blocks or threads of a GPU.

            bind T.i threadIdx.x
        """
        ...

    def compute_at(self: _S, block: str, location: str, *, results: _Names = ..., tail: str = ..., **options: Any) -> _S:
        """A producer moves under a loop of its consumers and computes what that iteration reads.

            n c h w ... = compute_at P T.i tail=full|guard
        """
        ...

    def reverse_compute_at(self: _S, block: str, location: str, *, results: _Names = ..., **options: Any) -> _S:
        """A consumer moves under a loop of its producers and consumes what that iteration finished.

            n c h w ... = reverse_compute_at C T.i
        """
        ...

    def compute_inline(self: _S, block: str, *, results: _Names = ..., **options: Any) -> _S:
        """A producer disappears; its readers compute what it would have stored.

            compute_inline P
        """
        ...

    def reverse_compute_inline(self: _S, block: str, *, results: _Names = ..., **options: Any) -> _S:
        """A consumer disappears into the block that computes what it reads.

            reverse_compute_inline C
        """
        ...

    def cache_read(self: _S, block: str, buffer: str, word: str, *, results: _Names = ..., **options: Any) -> _S:
        """A block reads a buffer through a copy, made by a new block before it.

            XS = cache_read T X global|shared|local
        """
        ...

    def cache_write(self: _S, block: str, word: str, *, results: _Names = ..., **options: Any) -> _S:
        """A block computes into a new buffer, which a new block behind it copies to the old one.

            C = cache_write T global|shared|local
        """
        ...

    def set_scope(self: _S, buffer: str, word: str, *, results: _Names = ..., **options: Any) -> _S:
        """Where a temporary lives: memory, a GPU block's shared memory, or registers.

            set_scope X global|shared|local
        """
        ...

    def decompose_reduction(self: _S, loop: str, *, results: _Names = ..., **options: Any) -> _S:
        """The init of a reduction becomes a block of its own, directly before the loop.

            T0 = decompose_reduction T.k
        """
        ...

    def rfactor(self: _S, loop: str, *, results: _Names = ..., axis: Union[int, str] = ..., **options: Any) -> _S:
        """A reduction is factored over a loop: a new block reduces each of its iterations by itself, and the block reduces their results.

            T_rf = rfactor T.k axis=INT
        """
        ...

    def fission(self: _S, loop: str, *, results: _Names = ..., at: Any = ..., **options: Any) -> _S:
        """A loop around several statements becomes a loop around each, or two loops, cut after the statement that holds a block.

            i0 i1 ... = fission T.i at=BLOCK
        """
        ...

    def merge(self: _S, loop1: str, loop2: str, *, results: _Names = ..., **options: Any) -> _S:
        """Two loops of the same extent, one behind the other, become one.

            i = merge T.i Y.i
        """
        ...

    def annotate(self: _S, target: str, *, results: _Names = ..., streaming: Any = ..., in_place: Any = ..., peel: Any = ..., whole: Any = ..., chains: Union[int, str] = ..., split: str = ..., threads: Union[int, str] = ..., note: Any = ..., **options: Any) -> _S:
        """A loop or block carries a value under a key, for lowering to read.

            annotate T.i | T streaming=1|0 in_place=X peel=1|0 whole=1|0 chains=INT split=static|dynamic threads=INT note=VALUE
        """
        ...

    def transform_layout(self: _S, buffers: Union[str, Sequence[str]], map: str, *, results: _Names = ..., pad: Union[int, str] = ..., **options: Any) -> _S:
        """The elements of a const parameter or a temporary lie in memory in another order.

            transform_layout X ... (o, c) -> (o/32, c, o%32) pad=INT
        """
        ...

    def sample_factors(self: _S, loop: str, *decision: Any, results: _Names = ..., parts: Union[int, str] = ..., max: Union[int, str] = ..., **options: Any) -> _S:
        """Names for factors of a loop's extent that a search may choose.

            f0 f1 ... = sample_factors T.i parts=INT max=INT -> [4, 16]
        """
        ...

    def sample_choice(self: _S, words: Union[str, Sequence[Any]], *decision: Any, results: _Names = ..., **options: Any) -> _S:
        """A name for one of several words that a search may choose.

            v = sample_choice [1, 2, 4] -> 2
        """
        ...

    def loop_partition(self: _S, loop: str, ints: Union[str, Sequence[Union[int, str, None]]], *, results: _Names = ..., **options: Any) -> _S:
        """One loop becomes sibling loops over parts of its range, the later ones with copies of the blocks.

            T1 T2 ... = loop_partition T.i [16, 48]
        """
        ...

    def split_buffer(self: _S, block: str, *, results: _Names = ..., **options: Any) -> _S:
        """What a block writes of a temporary, and blocks that meet it read there, becomes a buffer of its own.

            T_part = split_buffer T
        """
        ...

    def add_unit_loop(self: _S, target: str, *, results: _Names = ..., **options: Any) -> _S:
        """A loop of one iteration stands around a block or a loop.

            u = add_unit_loop T.i | T
        """
        ...

    def sample_location(self: _S, block: str, *decision: Any, results: _Names = ..., by: str = ..., **options: Any) -> _S:
        """A name for the place where a block is computed, which a search may choose.

            l = sample_location P by=compute_at|reverse_compute_at -> T.i
        """
        ...

    def blockize(self: _S, loop: str, *, results: _Names = ..., **options: Any) -> _S:
        """The loops from one on, with the block in them, become a block of tiles that moves as one.

            T_o = blockize T.i
        """
        ...

    def pad_einsum(self: _S, block: str, ints: Union[str, Sequence[Union[int, str, None]]], *, results: _Names = ..., **options: Any) -> _S:
        """The block's iterators are brought to multiples: it reads padded copies of its inputs, and what is wanted of its padded output is copied.

            A_pad ... T_trim = pad_einsum T [16, 16, 4]
        """
        ...

    def storage_align(self: _S, buffer: str, integer1: Union[int, str], integer2: Union[int, str], integer3: Union[int, str], *, results: _Names = ..., **options: Any) -> _S:
        """A dimension of a temporary gets a padded stride in memory: stride % factor == offset.

            storage_align T dim factor offset
        """
        ...

    def reindex(self: _S, block: str, buffer: str, *, results: _Names = ..., **options: Any) -> _S:
        """A copy of a buffer in a block's order: one dimension per iterator that its place there is made of.

            XR = reindex T X
        """
        ...

    def pack(self: _S, target: str, buffer: str, map: str, *, results: _Names = ..., scope: str = ..., pad: Union[int, str] = ..., **options: Any) -> _S:
        """What a block reads of a buffer under a loop is copied into the order in which it is read.

            XP = pack T.i | T X (i, k) -> (i/14, k, i%14) scope=global|shared|local pad=INT
        """
        ...

    def prefetch(self: _S, loop: str, buffer: str, *, results: _Names = ..., distance: Union[int, str] = ..., shares: Any = ..., each: str = ..., **options: Any) -> _S:
        """While an iteration of a loop runs, what a later one reads of a buffer, or writes, is asked for.

            prefetch T.k X distance=INT shares=LOOP each=line|page
        """
        ...

    def software_pipeline(self: _S, loop: str, *, results: _Names = ..., stages: Union[int, str] = ..., **options: Any) -> _S:
        """The copies that an iteration begins with are made while earlier iterations compute. Loops of these copies are bound to threads before: what is bound later has to be bound for the first copies, too, and a warning says by which steps.

            X0 ... = software_pipeline T.k stages=INT
        """
        ...

    def tensorize(self: _S, loop: str, word: str, *, results: _Names = ..., from_: Any = ..., **options: Any) -> _S:
        """The loops from one on, a tile, are to be a machine instruction.

            T_o = tensorize T.i INSTRUCTION from=FILE
        """
        ...

    def skip_zeros(self: _S, block: str, *, results: _Names = ..., masks: Any = ..., **options: Any) -> _S:
        """Products with a factor that is `if c then a else 0` are left out of a sum where it is 0; the other factor is taken to be finite.

            skip_zeros T masks=LOOP
        """
        ...
