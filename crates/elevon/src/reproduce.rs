//! `elevon reproduce`.

use crate::args::ReproduceArgs;
use crate::failure::{Failure, Outcome};

pub(crate) fn reproduce(_args: &ReproduceArgs) -> Result<Outcome, Failure> {
    Ok(Outcome::Done)
}
