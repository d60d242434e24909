//! Enums whose variants have a text each, written beside the variant.

/// Defines such an enum, with `ALL` its variants in order and their texts as `Display`.
macro_rules! named {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident { $($(#[$docs:meta])* $variant:ident => $text:literal,)+ }
    ) => {
        $(#[$attribute])*
        pub enum $name { $($(#[$docs])* $variant,)+ }

        impl $name {
            /// Every one.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $text,)+ })
            }
        }
    };
}

pub(super) use named;
