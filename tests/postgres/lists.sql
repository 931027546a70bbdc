-- What tools ask of the catalogue before they draw: -- TOOL: what they want to know, then the rows.

-- Grafana: its version
SELECT current_setting('server_version_num')::int/100 AS version;
-- gives: [["1600"]]
-- Grafana: whether TimescaleDB is there
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';
-- gives: []
-- Grafana: tables, those of the search path without their schema
SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, string_to_array(current_setting('search_path'), ',') s) THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') ORDER BY 1;
-- gives: [["people"]]
-- Grafana: columns
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE quote_ident(table_name) = 'people';
-- gives: [["d", "date"], ["age", "bigint"], ["sex", "text"]]

-- Metabase: schemas with tables
SELECT n.nspname FROM pg_catalog.pg_namespace AS n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND has_schema_privilege(n.nspname, 'usage') ORDER BY 1;
-- gives: [["public"]]
-- Metabase: tables and what they are
SELECT n.nspname AS "schema", c.relname AS "name", CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' END AS "type", d.description FROM pg_catalog.pg_class AS c INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid LEFT JOIN pg_catalog.pg_description AS d ON c.oid = d.objoid AND d.objsubid = 0 WHERE c.relkind IN ('r', 'p', 'v', 'f', 'm') AND n.nspname = 'public' ORDER BY 1, 2;
-- gives: [["public", "people", "TABLE", null]]
-- Metabase: whether they can be read
SELECT t.tablename, has_table_privilege(current_user, '"' || t.schemaname || '"."' || t.tablename || '"', 'SELECT') AS s, has_table_privilege(current_user, '"' || t.schemaname || '"."' || t.tablename || '"', 'INSERT') AS i FROM pg_catalog.pg_tables t WHERE t.schemaname = 'public';
-- gives: [["people", "t", "f"]]

-- Tableau: tables, as ODBC lists them
select relname, nspname, relkind from pg_catalog.pg_class c, pg_catalog.pg_namespace n where relkind in ('r', 'v', 'm', 'f', 'p') and nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pg_temp_1') and n.oid = relnamespace order by nspname, relname;
-- gives: [["people", "public", "r"]]
-- Tableau: columns, as ODBC lists them
select n.nspname, c.relname, a.attname, a.atttypid, t.typname, a.attnum, a.attlen, a.atttypmod, a.attnotnull, c.relkind, pg_get_expr(d.adbin, d.adrelid), case t.typtype when 'd' then t.typbasetype else 0 end from (((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n on n.oid = c.relnamespace and c.relname like 'people' and n.nspname like 'public') inner join pg_catalog.pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid) inner join pg_catalog.pg_type t on t.oid = a.atttypid) left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid and d.adnum = a.attnum order by n.nspname, c.relname, attnum;
-- gives: [["public", "people", "d", "1082", "date", "1", "4", "-1", "t", "r", null, "0"], ["public", "people", "age", "20", "int8", "2", "8", "-1", "t", "r", null, "0"], ["public", "people", "sex", "25", "text", "3", "-1", "-1", "t", "r", null, "0"]]
-- Tableau: primary keys
select ta.attname, ia.attnum, ic.relname, n.nspname, tc.relname from pg_catalog.pg_attribute ta, pg_catalog.pg_attribute ia, pg_catalog.pg_class tc, pg_catalog.pg_index i, pg_catalog.pg_namespace n, pg_catalog.pg_class ic where tc.relname = 'people' and n.nspname = 'public' and tc.oid = i.indrelid and n.oid = tc.relnamespace and i.indisprimary = 't' and ia.attrelid = i.indexrelid and ta.attrelid = i.indrelid and ta.attnum = i.indkey[ia.attnum-1] and (not ta.attisdropped) and (not ia.attisdropped) and ic.oid = i.indexrelid order by ia.attnum;
-- gives: []
-- Tableau: the type of large objects
select oid, typbasetype from pg_type where typname = 'lo';
-- gives: []

-- Power BI: types with their elements, as Npgsql reads them
SELECT n.nspname, t.oid, t.typname, CASE WHEN p.proname = 'array_recv' THEN 'a' ELSE t.typtype END AS kind, t.typelem FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace LEFT JOIN pg_proc AS p ON p.oid = t.typreceive LEFT JOIN pg_class AS c ON c.oid = t.typrelid WHERE t.typname IN ('int4', '_int4') AND (c.relkind IS NULL OR c.relkind = 'c') ORDER BY t.oid;
-- gives: [["pg_catalog", "23", "int4", "b", "0"], ["pg_catalog", "1007", "_int4", "b", "23"]]
-- Power BI: tables
select TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.tables where TABLE_SCHEMA not in ('information_schema', 'pg_catalog') order by TABLE_SCHEMA, TABLE_NAME;
-- gives: [["public", "people", "BASE TABLE"]]
-- Power BI: columns
select COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, case when (data_type like '%unsigned%') then DATA_TYPE || ' unsigned' else DATA_TYPE end as DATA_TYPE from INFORMATION_SCHEMA.columns where TABLE_SCHEMA = 'public' and TABLE_NAME = 'people' order by TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION;
-- gives: [["d", "1", "NO", "date"], ["age", "2", "NO", "bigint"], ["sex", "3", "NO", "text"]]
-- Power BI: keys and what leads to them
select i.CONSTRAINT_SCHEMA || '_' || i.CONSTRAINT_NAME as INDEX_NAME, k.COLUMN_NAME, k.ORDINAL_POSITION, case when i.CONSTRAINT_TYPE = 'PRIMARY KEY' then 'Y' else 'N' end as PRIMARY_KEY from INFORMATION_SCHEMA.table_constraints i inner join INFORMATION_SCHEMA.key_column_usage k on i.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA and i.CONSTRAINT_NAME = k.CONSTRAINT_NAME where i.TABLE_NAME = 'people' and i.CONSTRAINT_TYPE in ('PRIMARY KEY', 'UNIQUE') order by 1, k.ORDINAL_POSITION;
-- gives: []
-- Power BI: character sets
select character_set_name from INFORMATION_SCHEMA.character_sets;
-- gives: [["UTF8"]]

-- Looker: tables and columns
SELECT t.table_schema, t.table_name, c.column_name, c.data_type FROM information_schema.tables t JOIN information_schema.columns c ON c.table_schema = t.table_schema AND c.table_name = t.table_name WHERE t.table_schema = 'public' ORDER BY t.table_name, c.ordinal_position;
-- gives: [["public", "people", "d", "date"], ["public", "people", "age", "bigint"], ["public", "people", "sex", "text"]]
-- Looker: what runs, so that it can end it
SELECT pid, usename FROM pg_stat_activity WHERE query LIKE '%nothing%';
-- gives: []
-- Looker: whether it may make tables of its own
SELECT has_schema_privilege('public', 'CREATE'), has_database_privilege(current_database(), 'TEMP');
-- gives: [["f", "f"]]
