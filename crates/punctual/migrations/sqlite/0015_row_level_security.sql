-- Row-level security is PostgreSQL's: SQLite has nothing of the kind, and here every statement names its tenant. This
-- file keeps the numbers of both databases the same.
select 1;
