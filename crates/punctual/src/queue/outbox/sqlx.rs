//! The shared code for sqlx's two databases: a statement's rows. The types differ and the code does not, so
//! it is written once as a macro.

/// Makes the functions that run a statement on this connection and read these rows.
macro_rules! statements_of {
    ($connection:ty, $row:ty) => {
        async fn rows<T>(
            connection: &mut $connection,
            statement: Statement,
            read: fn(&$row) -> Result<T, SqlxError>,
        ) -> Result<Vec<T>> {
            let mut query = sqlx::query(statement.sql);
            for param in statement.params {
                query = match param {
                    Param::Int(v) => query.bind(v),
                    Param::Text(v) => query.bind(v),
                };
            }
            let rows = query.fetch_all(connection).await.map_err(trouble)?;
            rows.iter().map(read).collect::<Result<_, _>>().map_err(trouble)
        }

        /// Runs a statement; answers how many rows it returned.
        pub(crate) async fn count(connection: &mut $connection, statement: Statement) -> Result<usize> {
            let own = !connection.is_in_transaction();
            let rows = rows(connection, statement, |_| Ok(())).await;
            Ok(if own { rows.map_err(commit_failure) } else { rows }?.len())
        }

        fn read_inserted_message(row: &$row) -> Result<InsertedMessage, SqlxError> {
            Ok(InsertedMessage { id: row.try_get(0)?, source: row.try_get(1)?, external_id: row.try_get(2)? })
        }

        fn read_admitted_id(row: &$row) -> Result<AdmittedId, SqlxError> {
            Ok(AdmittedId {
                source: row.try_get(0)?,
                external_id: row.try_get(1)?,
                digest: row.try_get(2)?,
                message_id: row.try_get(3)?,
            })
        }
    };
}
pub(crate) use statements_of;
