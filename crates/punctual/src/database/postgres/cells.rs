//! Cells of rows and parameters of statements, in the types of PostgreSQL.

use crate::base::error::{Error, Result};
use crate::database::value::Value;
use std::error::Error as StdError;
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

pub(crate) fn int(row: &tokio_postgres::Row, n: usize) -> Result<Option<i64>> {
    let value = match row.columns().get(n).map(tokio_postgres::Column::type_) {
        Some(&Type::INT4) => row.try_get::<_, Option<i32>>(n).map(|v| v.map(i64::from)),
        Some(&Type::INT2) => row.try_get::<_, Option<i16>>(n).map(|v| v.map(i64::from)),
        _ => row.try_get::<_, Option<i64>>(n),
    };
    value.map_err(|e| Error::Database(e.into()))
}

pub(crate) fn ints(row: &tokio_postgres::Row, n: usize) -> Result<Option<Vec<i64>>> {
    row.try_get(n).map_err(|e| Error::Database(e.into()))
}

pub(crate) fn text(row: &tokio_postgres::Row, n: usize) -> Result<Option<String>> {
    row.try_get::<_, Option<String>>(n).map_err(|e| Error::Database(e.into()))
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(v) => int_to_sql(*v, ty, out),
            Value::Text(v) => v.to_sql(&Type::TEXT, out),
            Value::Texts(v) => v.to_sql(&Type::TEXT_ARRAY, out),
            Value::Ints(v) if *ty == Type::INT4_ARRAY => narrow(v)?.to_sql(ty, out),
            Value::Ints(v) => v.to_sql(&Type::INT8_ARRAY, out),
            Value::MaybeInts(v) => v.to_sql(&Type::INT8_ARRAY, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn int_to_sql(v: i64, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
    match *ty {
        Type::INT4 => i32::try_from(v)?.to_sql(ty, out),
        Type::INT2 => i16::try_from(v)?.to_sql(ty, out),
        _ => v.to_sql(&Type::INT8, out),
    }
}

fn narrow(v: &[i64]) -> Result<Vec<i32>, std::num::TryFromIntError> {
    v.iter().map(|n| i32::try_from(*n)).collect()
}
