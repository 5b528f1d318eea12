from toolkit.study import Study


def test_a_study_says_how_far_its_scores_generalize(demo_like_study):
    study = Study.load(demo_like_study)
    try:
        found = study.generalizability()
        judgements = study.judgements()
        model = study.generalizability("clarity", of="model", target=0.8)
    finally:
        study.store.close()
    assert found.result.of == ("base", "answer")
    assert found.result.phi.n["scores"] == int(judgements["composite"].notna().sum())
    assert found.result.phi.estimable
    assert 0 <= found.result.phi.low <= found.result.phi.high <= 1
    assert {"component", "curve"} == set(found.figure_frame()["part"])
    # The study asks one model, so the variance between models cannot be known.
    assert "one model only" in model.result.phi.note
    assert model.score == "clarity"
