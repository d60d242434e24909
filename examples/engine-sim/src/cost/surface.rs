//! A cost over two sizes, from scattered measurements.
//!
//! The rule that must never break: more of either size never costs less. Measurements that say otherwise are noise, and
//! meet in the middle.

/// One measurement, or what is left of it once noise is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) cost: f64,
}

/// Moves every point to the middle between the dearest that is no larger and the cheapest that is no smaller.
///
/// Both bounds grow with either size, and so does their middle. A point that no other contradicts stays where it is.
pub(super) fn without_noise(points: &[Point]) -> Vec<Point> {
    let within = |small: &Point, large: &Point| small.x <= large.x && small.y <= large.y;
    let middle = |point: &Point| {
        let below = points.iter().filter(|other| within(other, point)).map(|other| other.cost);
        let above = points.iter().filter(|other| within(point, other)).map(|other| other.cost);
        f64::midpoint(below.fold(point.cost, f64::max), above.fold(point.cost, f64::min))
    };
    points.iter().map(|point| Point { cost: middle(point), ..*point }).collect()
}

/// Curves over `y`, one for each `x` that was measured, and straight lines between them.
#[derive(Clone, Debug)]
pub(super) struct Surface {
    curves: Vec<(f64, Curve)>,
}

impl Surface {
    /// The surface through `points`.
    pub(super) fn new(points: &[Point]) -> Self {
        let mut xs: Vec<f64> = points.iter().map(|point| point.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let mut curves: Vec<(f64, Curve)> = Vec::with_capacity(xs.len());
        for x in xs {
            let knots = points.iter().filter(|point| point.x == x).map(|point| (point.y, point.cost)).collect();
            // One point has no slope of its own: the one of its neighbour, in proportion.
            let slope = curves.last().map_or(0.0, |(before, curve)| curve.slope * x / before);
            curves.push((x, Curve::new(knots, slope)));
        }
        Self { curves }
    }

    /// The cost at a place. Beyond the largest `x` it grows in proportion.
    pub(super) fn at(&self, x: f64, y: f64) -> f64 {
        let mut before: Option<(f64, f64)> = None;
        for (here, curve) in &self.curves {
            let cost = curve.at(y).max(before.map_or(0.0, |(_, cost)| cost));
            if x <= *here {
                return before.map_or(cost, |(left, low)| low + (cost - low) * (x - left) / (here - left));
            }
            before = Some((*here, cost));
        }
        before.map_or(0.0, |(last, cost)| cost * x / last)
    }
}

/// Straight lines from knot to knot; level before the first, as steep as the last after it.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    knots: Vec<(f64, f64)>,
    slope: f64,
}

impl Curve {
    /// A curve through `knots`. `slope` is how it goes on if there is only one.
    pub(super) fn new(mut knots: Vec<(f64, f64)>, slope: f64) -> Self {
        knots.sort_by(|a, b| a.0.total_cmp(&b.0));
        let slope = match knots[..] {
            [.., (x0, y0), (x1, y1)] => ((y1 - y0) / (x1 - x0)).max(0.0),
            _ => slope,
        };
        Self { knots, slope }
    }

    pub(super) fn at(&self, x: f64) -> f64 {
        let mut before: Option<(f64, f64)> = None;
        for &(here, cost) in &self.knots {
            if x <= here {
                return before.map_or(cost, |(left, low)| low + (cost - low).max(0.0) * (x - left) / (here - left));
            }
            before = Some((here, cost));
        }
        before.map_or(0.0, |(last, cost)| cost + (x - last) * self.slope)
    }
}
