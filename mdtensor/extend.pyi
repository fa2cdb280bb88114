"""Types for type checkers, written by `mdtensor stubs`: do not edit.

They come from the operations and methods that are registered, under the default
promotion rules. `mdtensor stubs --check` tells what has changed since.
"""

# mypy: disable-error-code="assignment, misc, overload-cannot-match, overload-overlap"
# mypy: disable-error-code="override"

from mdtensor.checking import Case as Case
from mdtensor.checking import Headroom as Headroom
from mdtensor.kernels.loops.kernel import Kernel as Kernel
from mdtensor.checking import Lost as Lost
from mdtensor.rendered.methods import add as add_rendered
from mdtensor.checking import audit as audit
from mdtensor.rendered.launches import bind as bind_launch
from mdtensor.rendered.windows import bordered as bordered
from mdtensor.rendered.constants import array as constant
from mdtensor.rendered.tiling import contract as contract
from mdtensor.rendered.launches import count_true as count_true
from mdtensor.checking import counting as counting
from mdtensor.rendered.products import filters as filters
from mdtensor.rendered.launches import launch as launch
from mdtensor.rendered.launches import launch_counting as launch_counting
from mdtensor.rendered.products import matrices as matrices
from mdtensor.rendered.pool import counts as pool_counts
from mdtensor.rendered.pool import seen as pool_taps
from mdtensor.ops.recurrent_words import recurrent_word_states as recurrent_word_states
from mdtensor.ops.recurrent_words import recurrent_word_step as recurrent_word_step
from mdtensor.rendered.constants import remembered as remembered
from mdtensor.rendered.wgsl import render_wgsl as render_wgsl
from mdtensor.rendered.products import reshaped as reshaped
from mdtensor.rendered.launches import types_of as types_of
_LATER: dict[str, tuple[str, str]]
__all__ = ['Case', 'Dense', 'Headroom', 'Inexact', 'Kernel', 'LOGS', 'Lost', 'Number', 'Real', 'Window', 'add_rendered', 'add_setting', 'along', 'announce_write', 'are_like', 'arithmetic', 'audit', 'audits_later', 'bind_launch', 'bordered', 'broadcast', 'broadcast_shapes', 'check_broadcast', 'check_image', 'check_nonempty', 'comparison', 'compute', 'constant', 'contract', 'conv_shape', 'conv_window', 'count_true', 'counting', 'deduced', 'describe', 'explain_wrong_calls', 'file_path', 'filters', 'find_device', 'flag', 'fractional', 'hint_in', 'infer', 'integers', 'is_mask', 'is_pick', 'join_parts', 'key_parts', 'launch', 'launch_counting', 'ledger', 'linear_shape', 'matmul_shape', 'matrices', 'methods_later', 'moveaxis_order', 'normalize_axes', 'normalize_axis', 'number', 'on_rendered_device', 'pad_widths', 'padding4', 'pair', 'permutation', 'pool1d_window', 'pool_counts', 'pool_taps', 'pool_window', 'predicate', 'recurrent_word_states', 'recurrent_word_step', 'reduction', 'register_rendered', 'remembered', 'render_wgsl', 'replacing', 'require_writable', 'reshaped', 'roll_steps', 'same', 'shape_rule', 'siblings', 'summary_indices', 'take_grid', 'types_of', 'write_problem']
from collections.abc import Callable
from typing import Any
from mdtensor import ledger as ledger
from mdtensor.audited import LOGS as LOGS, audits_later as audits_later
from mdtensor.contraction import contract_terms as contract_terms, parse_equation as parse_equation
from mdtensor.device import device as find_device, register_later as register_later
from mdtensor.dispatch.call_errors import explain_wrong_calls as explain_wrong_calls
from mdtensor.dispatch.classes import keep as keep
from mdtensor.dispatch.later import methods_later as methods_later
from mdtensor.dispatch.settings import add_setting as add_setting, default_settings as default_settings, run_under as run_under, settings as settings
from mdtensor.dispatch.suggestions import hint_in as hint_in
from mdtensor.errors import describe
from mdtensor.files import replacing as replacing, require_writable as require_writable, write_problem as write_problem
from mdtensor.generics.reduction import reduction as reduction
from mdtensor.infer import infer as infer
from mdtensor.ops.operands import Dense as Dense, Inexact as Inexact, Operand as Number, Real as Real, deduced
from mdtensor.printing import join_parts as join_parts, summary_indices as summary_indices, take_grid as take_grid
from mdtensor.rendered import on_rendered_device as on_rendered_device, register as register_rendered
from mdtensor.siblings import siblings as siblings
from mdtensor.spec.elementwise import along as along, arithmetic as arithmetic, broadcast as broadcast, comparison as comparison, fractional as fractional, predicate as predicate, same as same
from mdtensor.spec.indices import is_mask as is_mask, is_pick as is_pick, key_parts as key_parts
from mdtensor.spec.options import file_path as file_path, flag as flag, number as number
from mdtensor.spec.shapes import are_like as are_like, broadcast_shapes as broadcast_shapes, check_broadcast as check_broadcast, check_nonempty as check_nonempty, integers as integers, linear_shape as linear_shape, matmul_shape as matmul_shape, moveaxis_order as moveaxis_order, normalize_axes as normalize_axes, normalize_axis as normalize_axis, pad_widths as pad_widths, permutation as permutation, roll_steps as roll_steps
from mdtensor.spec.windows import Window as Window, check_image as check_image, conv_shape as conv_shape, conv_window as conv_window, padding4 as padding4, pair as pair, pool1d_window as pool1d_window, pool_window as pool_window
from mdtensor.tensor import Tensor, announce_write as announce_write

def shape_rule(operation: Callable[..., Any]) -> Callable[..., Any]: ...

def compute(operation: Any, kernel: Callable[..., Any], /, *operands: Any, **options: Any) -> Tensor: ...
