from toolkit.stats.result import COLUMNS, Estimate, estimates_frame


def test_a_missing_number_is_nan_and_the_columns_are_numbers():
    empty = Estimate("r", None, note="not estimable: one answer", n={"bases": 2, "answers": 6})
    frame = estimates_frame([("clarity", empty)], "dimension")
    assert list(frame.columns) == ["dimension", *COLUMNS]
    assert frame["n"][0] == "2 bases, 6 answers"
    assert frame[["estimate", "low", "high", "p_value"]].isna().all(axis=None)
    assert frame["estimate"].dtype == "float64"


def test_no_results_give_an_empty_table_with_its_columns():
    frame = estimates_frame([], "dimension")
    assert frame.empty
    assert frame["estimate"].dtype == "float64"
