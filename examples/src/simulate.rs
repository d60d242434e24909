//! Routing on real traffic, in virtual time: the real index, profiles and load tracker among modelled pods.

pub mod outcome;
