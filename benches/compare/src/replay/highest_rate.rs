//! Highest sustainable rate, by bracketing and bisection.

/// The highest rate at which `holds` gives something, to within 10%, beginning near `start`; with what it gave there.
///
/// Nothing, if no rate down to a thousandth of `start` holds.
pub fn highest<T>(start: f64, mut holds: impl FnMut(f64) -> Option<T>) -> Option<(f64, T)> {
    let (mut rate, mut low, mut high) = (start, None, None);
    while high.is_none() || low.is_none() {
        match holds(rate) {
            Some(found) => {
                low = Some((rate, found));
                rate *= STEP;
            }
            None => {
                high = Some(rate);
                rate /= STEP;
            }
        }
        if !(start / 1_000.0..start * 1_000.0).contains(&rate) {
            return low;
        }
    }
    let (mut low, mut high) = (low?, high?);
    while high / low.0 > WITHIN {
        let middle = (high * low.0).sqrt();
        match holds(middle) {
            Some(found) => low = (middle, found),
            None => high = middle,
        }
    }
    Some(low)
}

const STEP: f64 = 1.3;
const WITHIN: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_rate_is_found_from_below_and_from_above() {
        for (planted, start) in [(1e6, 1e6), (7.3e6, 1e6), (4.1e4, 1e6), (1e6, 0.97e6)] {
            let mut tried = 0;
            let (rate, found) = highest(start, |rate| {
                tried += 1;
                (rate <= planted).then_some(rate)
            })
            .expect("there is one");
            assert_eq!(rate, found);
            assert!(rate <= planted && rate * WITHIN >= planted, "{rate} for {planted} from {start}");
            assert!(tried < 20, "{tried}");
        }
    }

    #[test]
    fn what_never_holds_is_given_up() {
        assert!(highest(1e6, |_| None::<()>).is_none());
        assert!(highest(1e6, |_| Some(())).is_some_and(|(rate, ())| rate > 1e8));
    }
}
