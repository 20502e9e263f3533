"""The signature grammar: what it reads, and how it refuses."""

from __future__ import annotations

import math

import pytest

from scanweaver.errors import SignatureError
from scanweaver.frontend.signature import Signature, parse_signature


def axes(signature: Signature) -> str:
    lists = (signature.states, signature.inputs, signature.outputs)
    return " | ".join(", ".join(str(array) for array in arrays) for arrays in lists)


def refusal(text: str, **options: str) -> str:
    with pytest.raises(SignatureError) as caught:
        parse_signature(text, **options)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def caret(message: str) -> str:
    """What the carets of a message stand under."""
    _, line, marks = message.rsplit("\n", 2)
    begin = marks.index("^")
    return line[begin : begin + marks.count("^")]


def test_the_selective_scan():
    text = "h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d], z[b d t] -> y[b d t]"
    signature = parse_signature(text)
    assert signature.mode == "outputs"
    assert [array.name for array in signature.inputs] == ["u", "dt", "A", "B", "C", "D", "z"]
    assert signature.inputs[2].axes == ("d", "n")
    assert signature.axes == ("b", "d", "n", "t")
    assert signature.text == text


def test_white_space_and_newlines_do_not_matter():
    tight = parse_signature("h[b d];x[b d t]->y[b d t]")
    loose = parse_signature("\n  h [ b  d ]\n ;\n x[b d t]\n  -> y[b d t]\n")
    assert axes(tight) == axes(loose) == "h[b d] | x[b d t] | y[b d t]"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("h[b]", None),
        ("h[b]=-inf", -math.inf),
        ("h[b] = inf", math.inf),
        ("h[b]=1e-3", 1e-3),
        ("h[b]=-.5", -0.5),
        ("h[b]=2.", 2.0),
    ],
)
def test_a_state_starts_where_it_says(text: str, start: float | None):
    assert parse_signature(f"{text}; x[b t]").states[0].start == start


def test_a_state_may_start_at_nan():
    assert math.isnan(parse_signature("h[b]=nan; x[b t]").states[0].start)  # type: ignore[arg-type]


def test_states_and_outputs_are_marked_with_dtypes():
    signature = parse_signature("n[b]:int32=3, open[b]:bool; x[b t] -> y[b t]:float16")
    assert [(state.dtype, state.start) for state in signature.states] == [("int32", 3.0), ("bool", None)]
    assert signature.outputs[0].dtype == "float16"


def test_leading_axes_and_scalars():
    signature = parse_signature("h[... d]; x[... d t], g[] -> y[... t d]")
    assert signature.inputs[0].ellipsis and signature.inputs[1].axes == () and not signature.inputs[1].ellipsis
    assert axes(signature) == "h[... d] | x[... d t], g[] | y[... t d]"


def test_without_arrow_the_trajectories_are_the_outputs():
    signature = parse_signature("h[b d], c[b]:int32; x[b d t], w[b t]")
    assert signature.mode == "trajectories"
    assert axes(signature) == "h[b d], c[b] | x[b d t], w[b t] | h[b d t], c[b t]"
    assert signature.outputs[1].dtype == "int32"


def test_an_arrow_and_nothing_gives_the_last_states_alone():
    signature = parse_signature("h[b d]; x[b t d] ->")
    assert (signature.mode, signature.outputs) == ("last", ())


def test_time_is_renamed():
    signature = parse_signature("h[t]; x[t l] -> y[t l]", time="l")
    assert signature.axes == ("t", "l")


def test_an_output_may_have_its_states_name():
    assert axes(parse_signature("h[b d]; x[b t d] -> h[b t d]")) == "h[b d] | x[b t d] | h[b t d]"


def test_commas_between_axes():
    message = refusal("h[b, d]; x[b d t]")
    assert "separated by spaces" in message and "`h`" in message
    assert message.splitlines()[1].strip() == "h[b, d]; x[b d t]"
    assert message.splitlines()[2].index("^") == 4 + "h[b, d]".index(",")


def test_capital_t_for_time():
    message = refusal("h[b d]; x[b d T] -> y[b d T]")
    assert "no input carries time `t`" in message and "write `t` for `T`" in message and "time='T'" in message
    assert caret(message) == "T"
    message = refusal("h[b d]; x[b d t] -> y[b d T]")
    assert "output `y` does not carry time `t`" in message and "write `t` for `T`" in message


def test_an_axis_twice():
    message = refusal("h[b d]; W[d d], x[b d t] -> y[b d t]")
    assert "axis `d` stands twice in `W`" in message
    assert "`W[d e]`" in message and 'sw.rename(x, d="e")' in message
    assert caret(message) == "d"


def test_carets_stand_in_the_right_line():
    message = refusal("h[b d];\n  x[b d t],\n  W[d d] -> y[b d t]")
    assert message.splitlines()[-2].strip() == "W[d d] -> y[b d t]"
    assert message.splitlines()[-1].index("^") == 4 + "  W[d d]".rindex("d")


@pytest.mark.parametrize(
    ("text", "wanted", "under"),
    [
        ("h[b]", "expected `;` between the states and the inputs, got the end", "^"),
        ("h[b], x[b t] -> y[b t]", "put it before `x[b t]`", "->"),
        ("h[b] x[b t]", "expected `;`", "x"),
        ("", "expected a state, such as `h[b d]`, got the end of the signature", "^"),
        ("; x[b t]", "expected a state", ";"),
        ("h[b];", "expected an input, such as `x[b d t]`", "^"),
        ("h[b]; x[b t],", "expected an input", "^"),
        ("h[b]; x[b t] -> y", "expected `[` and the axes of output `y`", "^"),
        ("h; x[b t]", "expected `[` and the axes of state `h`", ";"),
        ("h[b; x[b t]", "expected `]` after the axes of `h`, got `;`", ";"),
        ("h[b]; x[b t", "expected `]` after the axes of `x`", "^"),
        ("2h[b]; x[b t]", "expected a state, such as `h[b d]`, got `2h`", "2h"),
        ("lambda[b]; x[b t]", "got `lambda`, a Python keyword", "lambda"),
        ("h[3]; x[b t]", "expected an axis of `h` or `]`, got `3`", "3"),
        ("h[b ... d]; x[b t]", "`...` stands once, before all named axes", "..."),
        ("h[... ...]; x[b t]", "`...` stands once", "..."),
        ("h[b]:floot32; x[b t]", "did you mean `float32`?", "floot32"),
        ("h[b]:quux; x[b t]", "a dtype is one of bool, uint8", "quux"),
        ("h[b]; x[b t]:float16", "input `x` has its dtype from the tensor", "float16"),
        ("h[b]; x[b t]=3", "only states start at a number (the default of an input", "3"),
        ("h[b]; x[b t] -> y[b t]=3", "output `y` has no start value", "3"),
        ("h[b]=zero; x[b t]", "expected the number that state `h` starts at", "zero"),
        ("h[b]=1.5.2; x[b t]", "expected the number", "1"),
        ("n[b]:int32=0.5; x[b t]", "an integer from -2147483648 to 2147483647 to start at, got `0.5`", "0.5"),
        ("n[b]:int8=300; x[b t]", "state `n` is marked int8: expected an integer from -128 to 127", "300"),
        ("n[b]:int64=9223372036854775808; x[b t]", "to 9223372036854775807 to start at", "9223372036854775808"),
        ("n[b]:uint8=-1; x[b t]", "expected an integer from 0 to 255 to start at", "-1"),
        ("n[b]:int8=1e400; x[b t]", "expected an integer from -128 to 127", "1e400"),
        ("h[b]=1e400; x[b t]", "state `h` has no mark: expected at most 1.79769e+308 in size", "1e400"),
        ("h[b]:float16=1e6; x[b t]", "state `h` is marked float16: expected at most 65504 in size", "1e6"),
        ("h[b]:complex64=-1e39; x[b t]", "expected at most 3.40282e+38 in size", "-1e39"),
        ("n[b]:int32=inf; x[b t]", "expected an integer", "inf"),
        ("n[b]:bool=2; x[b t]", "expected 0 or 1 to start at", "2"),
        ("h[b], h[b]; x[b t]", "`h` names two arrays, a state and a state", "h[b]"),
        ("h[b]; h[b t]", "`h` names two arrays, a state and an input", "h[b t]"),
        ("h[b]; x[b t] -> y[b t], y[b t]", "`y` names two outputs", "y[b t]"),
        ("h[b]; x[b t] -> x[b t]", "an input and an output", "x[b t]"),
        ("h[b t]; x[b t]", "state `h` carries time `t`", "t"),
        ("h[b]; x[b], a[b]", "no input carries time `t`: at least one input and every output", "x[b]"),
        ("h[b]; x[b t] -> y[b]", "output `y` does not carry time `t`", "y[b]"),
        ("h[b]; x[b t] -> y[b q t]", "axis `q` of output `y` is in no state and no input", "q"),
        ("h[b]; x[b t] -> y[... t]", "output `y` has `...`, and no state or input has", "y[... t]"),
        ("h[b]; x[b t] -> y[b t] z", "expected `,` or the end of the signature, got `z`", "z"),
        ("h[b]; x[b t] => y[b t]", "expected `->` before the outputs, got `=>`", "=>"),
        ("h[b]; x[b t] ; z[b t]", "expected `,` or `->` or the end", ";"),
    ],
)
def test_refusals_point_at_their_place(text: str, wanted: str, under: str):
    message = refusal(text)
    assert wanted in message
    assert caret(message) == (under if under != "^" else ""), message


def test_time_elsewhere_without_arrow():
    message = refusal("h[b d]; x[b t d]")
    assert "write `-> h[b t d]`" in message and caret(message) == "t"


def test_wrong_options():
    assert "time='2'" in refusal("h[b]; x[b t]", time="2")
    assert "batch='rows'" in refusal("h[b]; x[b t]", batch="rows")
