"""What a user is told of bad input: the error that its caller expects, in one line."""

import pytest

from toolkit.errors import InputError, ModelError


def refusal(says, call, *given, error=InputError, **options):
    """Check that a call is refused in one line in which this expression is found (None: any), and return it."""
    with pytest.raises(error, match=says) as caught:
        call(*given, **options)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    return line


def failed(call, *given, **options):
    """Return the error by which a model does not answer."""
    with pytest.raises(ModelError) as caught:
        call(*given, **options)
    return caught.value
