//! A connection past the store, for tests that look at the tables themselves.

use super::trouble;
use crate::base::error::Result;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// Runs each text for itself, outside any transaction; each gives its rows.
pub async fn run(url: &str, texts: &[String]) -> Result<Vec<Vec<Vec<Option<String>>>>> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(trouble)?;
    let link = tokio::spawn(connection);
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        let answers = client.simple_query(text).await.map_err(trouble)?;
        all.push(answers.iter().filter_map(read).collect());
    }
    drop(client);
    link.await.ok();
    Ok(all)
}

fn read(answer: &SimpleQueryMessage) -> Option<Vec<Option<String>>> {
    let SimpleQueryMessage::Row(row) = answer else {
        return None;
    };
    Some((0..row.len()).map(|n| row.get(n).map(str::to_owned)).collect())
}
