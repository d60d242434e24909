//! Setters of configuration structs, which are `#[non_exhaustive]`: they grow fields without breaking whoever makes one.

/// Defines a method for each field, named as it, that sets it.
macro_rules! setters {
    ($name:ident { $($field:ident: $type:ty,)+ }) => {
        impl $name {
            $(
                #[doc = concat!("The same with this [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
                #[must_use]
                pub const fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}

pub(crate) use setters;
