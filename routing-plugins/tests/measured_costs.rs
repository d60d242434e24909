//! Cost model fits of the two measured tables: coefficients and relative errors.
#![cfg(feature = "serde")]

use routing_plugins::{CostModel, Fit, Measurements, Products, RelativeError};

/// Hugging Face transformers with SDPA, bound by kernel launches.
const UNFUSED: &str = include_str!("fixtures/costs/h200_llama8b.json");
/// A forward pass as engines run it: fused kernels, paged KV, CUDA graphs.
const FUSED: &str = include_str!("fixtures/costs/h200_llama8b_fused.json");

fn fit(table: &str, products: Products) -> Fit {
    let table: Measurements = serde_json::from_str(table).expect("a table of measurements");
    CostModel::fit(&table, products).expect("a fit")
}

/// Mean, 90th percentile and maximum in percent, each at most as stated and no more than a tenth below.
fn assert_error(error: RelativeError, percent: [f64; 3]) {
    for (found, stated) in [error.mean, error.p90, error.max].into_iter().zip(percent) {
        let found = found * 100.0;
        assert!(found <= stated && found > stated * 0.9, "{error:?}, stated {percent:?}");
    }
}

#[test]
fn the_unfused_model_is_the_additive_fit_of_the_first_table() {
    let (found, unfused) = (fit(UNFUSED, Products::Additive).model, CostModel::UNFUSED);
    // To three digits; the context's to two.
    for (found, unfused, tolerance) in [
        (found.fixed, unfused.fixed, 0.002),
        (found.per_token, unfused.per_token, 0.002),
        (found.per_pair, unfused.per_pair, 0.002),
        (found.decode_step, unfused.decode_step, 0.002),
        (found.per_sequence, unfused.per_sequence, 0.002),
        (found.per_context, unfused.per_context, 0.015),
    ] {
        assert!((found.get() / unfused.get() - 1.0).abs() < tolerance, "{found:?} {unfused:?}");
    }
    let rest = |model: CostModel| (model.products, model.per_cached, model.step_tokens);
    assert_eq!(rest(found), rest(unfused));
}

#[test]
fn the_default_is_the_roofline_fit_of_the_second_table() {
    assert_eq!(CostModel::default(), CostModel::FUSED);
    let (found, fused) = (fit(FUSED, Products::Roofline).model, CostModel::FUSED);
    for (found, fused) in [
        (found.fixed, fused.fixed),
        (found.per_token, fused.per_token),
        (found.per_pair, fused.per_pair),
        (found.per_cached, fused.per_cached),
        (found.decode_step, fused.decode_step),
        (found.per_sequence, fused.per_sequence),
        (found.per_context, fused.per_context),
    ] {
        assert!((found.get() / fused.get() - 1.0).abs() < 0.005, "{found:?} {fused:?}");
    }
    assert_eq!((found.products, found.step_tokens), (fused.products, fused.step_tokens));
    assert!((fused.prefill_seconds(100_000.0, 0.0) - 6.8).abs() < 0.1, "{}", fused.prefill_seconds(100_000.0, 0.0));
}

#[test]
fn errors_are_as_stated() {
    let additive = fit(UNFUSED, Products::Additive);
    assert_error(additive.prefill_error, [18.5, 38.0, 62.5]);
    assert_error(additive.decode_error, [6.3, 10.5, 18.5]);
    let roofline = fit(UNFUSED, Products::Roofline);
    assert_error(roofline.prefill_error, [13.0, 31.0, 41.0]);
    assert_error(roofline.decode_error, [6.3, 10.5, 18.5]);
    assert_eq!((additive.mixed_error, roofline.mixed_error), (None, None));

    let additive = fit(FUSED, Products::Additive);
    assert_error(additive.prefill_error, [7.0, 15.0, 25.0]);
    assert_error(additive.decode_error, [1.3, 2.7, 7.5]);
    assert_error(additive.mixed_error.expect("mixed rows"), [5.8, 10.5, 12.8]);
    let roofline = fit(FUSED, Products::Roofline);
    assert_error(roofline.prefill_error, [2.3, 4.0, 9.5]);
    assert_error(roofline.decode_error, [0.8, 1.5, 3.0]);
    assert_error(roofline.mixed_error.expect("mixed rows"), [2.9, 5.6, 8.4]);
}

/// A cold prompt of 100,000 tokens took 7.23 and 6.81 s.
#[test]
fn a_long_cold_prompt_by_each_model() {
    for (table, products, seconds) in [
        (UNFUSED, Products::Additive, 10.3),
        (UNFUSED, Products::Roofline, 9.3),
        (FUSED, Products::Additive, 6.8),
        (FUSED, Products::Roofline, 6.9),
    ] {
        let found = fit(table, products).model.prefill(0, 100_000).as_secs_f64();
        assert!((found - seconds).abs() < 0.06, "{found} s, stated {seconds}");
    }
}
