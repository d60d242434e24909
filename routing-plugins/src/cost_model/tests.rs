use proptest::prelude::*;

use super::*;

fn row(cached: u32, new: u32, ms: f64) -> PrefillRow {
    PrefillRow { cached, new, ms, cache_copy_ms: 0.0 }
}

#[test]
fn scorer_planner_and_engine_agree_on_a_cold_prompt() {
    let model = CostModel::UNFUSED;
    let scorer = model.prefill_seconds(100_000.0, 0.0);
    assert!((scorer - 10.32).abs() < 0.005, "{scorer}");
    assert!((model.prefill(0, 100_000).as_secs_f64() - scorer).abs() < 1e-6);
    let planner = BatchCosts::from(&model).prefill(0, 100_000);
    assert!((planner + model.fixed.get() - scorer).abs() < 1e-9, "but for the fixed part: {planner}");
}

#[test]
fn an_empty_step_takes_no_time_and_the_fixed_part_is_paid_once() {
    let model = CostModel::UNFUSED;
    assert_eq!((model.step(&[], 0, 0), model.prefill(75_000, 0)), (Duration::ZERO, Duration::ZERO));
    let (prefill, decode) = (model.prefill(0, 4_096), model.decode(8, 1_024));
    let both = model.step(&[(0, 4_096)], 8, 8 * 1_024);
    let saved = (prefill + decode).saturating_sub(both).as_secs_f64();
    assert!((saved - model.decode_step.get()).abs() < 1e-8, "{both:?} of {prefill:?} and {decode:?}");
}

#[test]
fn a_model_is_found_again_from_its_own_times() {
    let amount = |number| Amount::new(number).unwrap();
    for products in [Products::Additive, Products::Roofline] {
        let per_cached = if products == Products::Roofline { amount(2e-8) } else { Amount::ZERO };
        let (fixed, decode_step) = (amount(5e-3), amount(4e-3));
        let truth = CostModel { products, per_cached, fixed, decode_step, ..CostModel::UNFUSED };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let mut table = Measurements::default();
        for new in [1, 16, 256, 1_024, 8_192] {
            for cached in [0, 1_024, 65_536] {
                table.prefill.push(row(cached, new, ms(truth.prefill(cached as usize, new as usize))));
            }
            for context in [128, 8_192] {
                let time = ms(truth.decode(new as usize, context as usize));
                table.decode.push(DecodeRow { batch: new, context, ms: time });
            }
        }
        let fit = CostModel::fit(&table, products).unwrap();
        assert!(fit.prefill_error.max < 1e-5 && fit.decode_error.max < 1e-5, "{fit:?}");
        assert_eq!(fit.mixed_error, None);
    }
}

#[test]
fn rows_that_cannot_be_are_refused() {
    let rows = |ms| vec![row(0, 1, 1.0), row(0, 2, 1.0), row(0, 3, ms)];
    let decode = vec![DecodeRow { batch: 1, context: 1, ms: 1.0 }; 3];
    let table = |prefill| Measurements { prefill, decode: decode.clone(), mixed: Vec::new() };
    let refused = |table| CostModel::fit(&table, Products::Additive).unwrap_err();
    for ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(refused(table(rows(ms))), FitError::Row { list: "prefill", row: 2 });
    }
    assert_eq!(refused(table(Vec::new())), FitError::TooFew);
    let mixed = vec![MixedRow { batch: 1, ms: 1.0, ..MixedRow::default() }];
    assert_eq!(refused(Measurements { mixed, ..table(rows(1.0)) }), FitError::Row { list: "mixed", row: 0 });
}

fn any_model() -> impl Strategy<Value = CostModel> {
    let form = prop::sample::select(vec![Products::Additive, Products::Roofline]);
    let numbers = prop::array::uniform7(prop_oneof![Just(0.0), 1e-10..1e-1, Just(1e200)]);
    (form, numbers).prop_map(|(products, numbers)| {
        let [fixed, per_token, per_pair, per_cached, decode_step, per_sequence, per_context] =
            numbers.map(|number| Amount::new(number).unwrap());
        let step_tokens = CostModel::default().step_tokens;
        CostModel {
            products,
            fixed,
            per_token,
            per_pair,
            per_cached,
            decode_step,
            per_sequence,
            per_context,
            step_tokens,
        }
    })
}

proptest! {
    /// A longer chunk, a longer cached part, another chunk, another sequence and more context: each takes as long or longer.
    #[test]
    fn more_never_takes_less(
        model in any_model(),
        (cached, new) in (0_usize..120_000, 0_usize..120_000),
        (sequences, context) in (0_usize..300, 0_usize..1_000_000),
        more in 0_usize..20_000,
    ) {
        let less = model.step(&[(cached, new)], sequences, context);
        for larger in [
            model.step(&[(cached + more, new)], sequences, context),
            model.step(&[(cached, new + more)], sequences, context),
            model.step(&[(cached, new), (cached, more)], sequences, context),
            model.step(&[(cached, new)], sequences + more, context),
            model.step(&[(cached, new)], sequences, context + more),
        ] {
            // Sums round: a billionth is nothing.
            let slack = larger / 1_000_000_000 + Duration::from_nanos(1);
            prop_assert!(less <= larger.saturating_add(slack), "{less:?} {larger:?}");
        }
    }

    /// The scorer's formula is the engine's, for any form, and a finite number.
    #[test]
    fn one_chunk_is_what_the_scorer_expects(model in any_model(), new in 1_usize..100_000, cached in 0_usize..100_000) {
        let seconds = model.prefill_seconds(new as f64, cached as f64);
        prop_assert!(seconds.is_finite());
        let step = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        prop_assert!(step.abs_diff(model.prefill(cached, new)) <= step / 1_000_000_000 + Duration::from_nanos(1));
    }

    /// More to compute never takes less, and the answer is a number, whatever the amounts.
    #[test]
    fn it_grows(new in 0.0..1e19f64, more in 0.0..1e19f64, cached in 0.0..1e19f64) {
        for products in [Products::Additive, Products::Roofline] {
            let model = CostModel { products, per_pair: Amount::constant(f64::MAX), ..CostModel::UNFUSED };
            prop_assert!(model.prefill_seconds(new, cached) <= model.prefill_seconds(new + more, cached));
            prop_assert!(model.prefill_seconds(new, cached).is_finite());
        }
    }

    /// Pairs are what a token-by-token count gives.
    #[test]
    fn pairs_are_counted_one_by_one(new in 0..300u32, cached in 0..300u32) {
        // A token attends to those before it and half to itself: what is missing at one end comes at the other.
        let pairs: f64 = (0..new).map(|at| f64::from(cached) + f64::from(at) + 0.5).sum();
        let literal = 0.0224 + 1.65e-5 * f64::from(new) + 1.73e-9 * pairs;
        prop_assert!((CostModel::UNFUSED.prefill_seconds(f64::from(new), f64::from(cached)) - literal).abs() < 1e-9);
    }
}
