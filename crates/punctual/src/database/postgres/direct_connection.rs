//! A connection past the store, for tests that look at the tables themselves.

use crate::base::error::Result;
use crate::database::postgres::trouble;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A connection outside any transaction and any pool.
#[derive(Debug)]
pub struct DirectConnection(Client);

impl DirectConnection {
    /// Connects.
    pub async fn connect(url: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(trouble)?;
        tokio::spawn(connection);
        Ok(Self(client))
    }

    /// Runs each text for itself; each gives its rows.
    pub async fn run(&self, texts: &[String]) -> Result<Vec<Vec<Vec<Option<String>>>>> {
        let mut all = Vec::with_capacity(texts.len());
        for text in texts {
            let answers = self.0.simple_query(text).await.map_err(trouble)?;
            all.push(answers.iter().filter_map(read).collect());
        }
        Ok(all)
    }

    /// Prepares a text, and runs nothing.
    #[cfg(test)]
    pub(crate) async fn prepare(&self, text: &str) -> Result<()> {
        self.0.prepare(text).await.map(|_| ()).map_err(trouble)
    }
}

fn read(answer: &SimpleQueryMessage) -> Option<Vec<Option<String>>> {
    let SimpleQueryMessage::Row(row) = answer else {
        return None;
    };
    Some((0..row.len()).map(|n| row.get(n).map(str::to_owned)).collect())
}
