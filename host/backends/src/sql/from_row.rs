//! `FromRow` as sqlx derives it, without sqlx's macros: these have the drivers and all below them built
//! once more, for the compiler.

/// Declares structs that are read from rows of either database by the names of their fields.
macro_rules! from_row {
    ($($(#[$of_type:meta])* $visible:vis struct $name:ident {
        $($(#[$of_field:meta])* $field_visible:vis $field:ident: $type:ty,)+
    })+) => {$(
        $(#[$of_type])*
        $visible struct $name {
            $($(#[$of_field])* $field_visible $field: $type,)+
        }

        impl<'r, R: sqlx::Row> sqlx::FromRow<'r, R> for $name
        where
            &'static str: sqlx::ColumnIndex<R>,
            $($type: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)+
        {
            fn from_row(row: &'r R) -> sqlx::Result<Self> {
                Ok(Self { $($field: row.try_get(stringify!($field))?,)+ })
            }
        }
    )+};
}

pub(super) use from_row;
