//! Range checks of parameters, for documents.

use serde::de::{Deserialize, Deserializer, Error};

use crate::parameters::{Fraction, Positive};

/// A name, not empty.
pub(crate) fn name<'de, D: Deserializer<'de>, T: Deserialize<'de> + AsRef<str>>(from: D) -> Result<T, D::Error> {
    let name = T::deserialize(from)?;
    if name.as_ref().is_empty() { Err(D::Error::custom("a name is empty")) } else { Ok(name) }
}

/// A list with something in it.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(from)?;
    if list.is_empty() { Err(D::Error::custom("a list is empty")) } else { Ok(list) }
}

/// A limit on a share: above 0, and at most 1, since more is never reached.
pub(crate) fn share<'de, D: Deserializer<'de>>(from: D) -> Result<Positive, D::Error> {
    let share = Positive::deserialize(from)?;
    if share.get() > 1.0 {
        return Err(D::Error::custom(format_args!("{} is not above 0 and at most 1", share.get())));
    }
    Ok(share)
}

/// A fraction above 0, where 0 would mean that a plugin does nothing.
pub(crate) fn some<'de, D: Deserializer<'de>>(from: D) -> Result<Fraction, D::Error> {
    let fraction = Fraction::deserialize(from)?;
    if fraction == Fraction::ZERO { Err(D::Error::custom("0 is not above 0")) } else { Ok(fraction) }
}

/// A fraction below 1, where 1 would mean that a plugin does nothing.
pub(crate) fn part<'de, D: Deserializer<'de>>(from: D) -> Result<Fraction, D::Error> {
    let fraction = Fraction::deserialize(from)?;
    if fraction == Fraction::ONE { Err(D::Error::custom("1 is not below 1")) } else { Ok(fraction) }
}
