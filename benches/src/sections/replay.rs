//! What rate of requests and events is kept up with?

use crate::options::Options;
use crate::report::Table;

pub(super) fn run(_options: &Options, _tell: &mut dyn FnMut(&str)) -> Vec<Table> {
    Vec::new()
}
