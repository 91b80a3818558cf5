//! A server whose handlers have a database of their own, as an example of the outbox: the result of a call is committed together with what the call does, under the call's id.
//! After a crash the database knows what became of each call, and nothing is left unknown.
//!
//! `witrpc-chaos-bank ENDPOINT JOURNAL DATABASE`

use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use witrpc::server::{CallContext, Fault, Resolution, Server, ServiceBuilder};

/// The balance of each account.
const ACCOUNTS: TableDefinition<'_, &str, i64> = TableDefinition::new("accounts");

/// What each call came to, by its principal and id. In a real database old rows are removed when answers are held no longer.
const CALLS: TableDefinition<'_, (&str, u128), i64> = TableDefinition::new("calls");

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Bank(Database);

impl Bank {
    fn open(path: &Path) -> Result<Self, Failure> {
        let database = Database::create(path)?;
        let begun = database.begin_write()?;
        begun.open_table(ACCOUNTS)?;
        begun.open_table(CALLS)?;
        begun.commit()?;
        Ok(Self(database))
    }

    /// Pays into an account. One transaction: the payment and what the caller is to be told of it.
    fn pay(&self, call: &CallContext, account: &str, amount: i64) -> Result<i64, Failure> {
        let transaction = self.0.begin_write()?;
        let balance = {
            let mut accounts = transaction.open_table(ACCOUNTS)?;
            let before = accounts.get(account)?.map_or(0, |balance| balance.value());
            accounts.insert(account, before + amount)?;
            let id = (call.principal(), call.invocation_id().as_u128());
            let mut calls = transaction.open_table(CALLS)?;
            if calls.insert(id, before + amount)?.is_some() {
                return Err("a call came twice".into());
            }
            before + amount
        };
        transaction.commit()?;
        Ok(balance)
    }

    /// What became of a call that was cut off. The process that began it is dead, so what is not there will not come.
    fn resolve(&self, call: &CallContext) -> Result<Resolution, Failure> {
        let calls = self.0.begin_read()?.open_table(CALLS)?;
        let id = (call.principal(), call.invocation_id().as_u128());
        Ok(match calls.get(id)? {
            Some(balance) => Resolution::executed(&balance.value()),
            None => Resolution::NotExecuted,
        })
    }
}

fn service(bank: &Arc<Bank>) -> ServiceBuilder {
    let (payer, resolver) = (bank.clone(), bank.clone());
    ServiceBuilder::open("Demo.IBank")
        .handle("long Pay(string account, long amount)", {
            move |call, (account, amount): (String, i64)| {
                let bank = payer.clone();
                async move {
                    let paid =
                        tokio::task::spawn_blocking(move || bank.pay(&call, &account, amount));
                    let paid = paid.await.map_err(|e| Fault::new(e.to_string()))?;
                    paid.map_err(|e| Fault::new(e.to_string()))
                }
            }
        })
        .resolver("Pay", move |call| {
            let resolution = resolver.resolve(&call);
            std::future::ready(resolution.unwrap_or_else(|error| {
                eprintln!("the database: {error}");
                Resolution::Unknown
            }))
        })
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [endpoint, journal, database] = &arguments[..] else {
        return Err("usage: witrpc-chaos-bank ENDPOINT JOURNAL DATABASE".into());
    };
    let bank = Arc::new(Bank::open(Path::new(database))?);
    let server = Server::builder()
        .listen(endpoint)
        .journal(journal)
        .service(service(&bank))
        .start()
        .await?;
    println!("listening {}", server.endpoints()[0]);
    std::future::pending().await
}
