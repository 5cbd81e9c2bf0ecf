# Run once by the PostgreSQL image, when its volume is empty. Wardline owns its database and is no superuser.
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\set password `cat /run/secrets/postgres-password`
create role wardline login password :'password';
create database wardline owner wardline;
SQL
