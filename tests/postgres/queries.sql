-- What DBeaver, Metabase and others ask of the catalogue, one statement between two semicolons.

SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datname='qserver';

select * from pg_catalog.pg_settings where name='standard_conforming_strings';

SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN
pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND
d.classoid='pg_namespace'::regclass ORDER BY nspname;

SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr,
pg_catalog.pg_get_partkeydef(c.oid) as partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN
pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass
WHERE c.relnamespace=2200 AND c.relkind not in ('i','I','c');

SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as
def_value,dsc.description,dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class
c ON (a.attrelid=c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND
a.attnum = ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND
a.attnum = dsc.objsubid) LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND
dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid WHERE NOT
a.attisdropped AND c.oid=16384 ORDER BY a.attnum;

SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name,
d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid LEFT OUTER JOIN
pg_catalog.pg_description d ON t.oid=d.objoid WHERE t.typname IS NOT NULL AND (c.relkind IS NULL
OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C');

SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description, case when
c.contype='c' then "substring"(pg_get_constraintdef(c.oid), 7) else null end consrc_copy FROM
pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN
pg_catalog.pg_class rt ON rt.oid=c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d ON
d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass WHERE c.conrelid=16384
ORDER BY c.oid;

select c.oid,pg_catalog.pg_total_relation_size(c.oid) as
total_rel_size,pg_catalog.pg_relation_size(c.oid) as rel_size FROM pg_class c WHERE
c.relnamespace=2200;

SELECT "n"."nspname" AS "schema", "c"."relname" AS "name", CASE "c"."relkind" WHEN 'r' THEN
'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' END AS "type", "d"."description" AS
"description", "stat"."n_live_tup" AS "estimated_row_count" FROM "pg_catalog"."pg_class" AS "c"
INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON "c"."relnamespace" = "n"."oid" LEFT JOIN
"pg_catalog"."pg_description" AS "d" ON ("c"."oid" = "d"."objoid") AND ("d"."objsubid" = 0) AND
("d"."classoid" = ('pg_class')::regclass) LEFT JOIN "pg_stat_user_tables" AS "stat" ON
("n"."nspname" = "stat"."schemaname") AND ("c"."relname" = "stat"."relname") WHERE
("c"."relnamespace" = "n"."oid") AND ("n"."nspname" !~ 'information_schema|catalog_history|^pg_')
AND ("c"."relkind" IN ('r','p','v','f','m')) AND ("n"."nspname" NOT IN ('x')) ORDER BY "type" ASC,
"schema" ASC, "name" ASC;

with table_privileges as (select NULL as role, t.schemaname as schema, t.objectname as table,
pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname,'"','""') || '"' ||
'.' || '"' || replace(t.objectname,'"','""') || '"', 'update') as update,
pg_catalog.has_table_privilege(current_user, '"' || replace(t.schemaname,'"','""') || '"' || '.'
|| '"' || replace(t.objectname,'"','""') || '"', 'DELETE') as delete from (select schemaname,
tablename as objectname from pg_catalog.pg_tables union select schemaname, viewname as objectname
from pg_catalog.pg_views union select schemaname, matviewname as objectname from
pg_catalog.pg_matviews) t where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema'
and pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')) select t.* from
table_privileges t;

SELECT "c"."column_name" AS "name", CASE WHEN "c"."udt_schema" IN ('public','pg_catalog') THEN
FORMAT('%s', "c"."udt_name") ELSE FORMAT('"%s"."%s"', "c"."udt_schema", "c"."udt_name") END AS
"database-type", "c"."ordinal_position" - 1 AS "database-position", "c"."table_schema" AS
"table-schema", "c"."table_name" AS "table-name", "pk"."column_name" IS NOT NULL AS "pk?",
COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST("c"."table_schema" AS TEXT), CAST("c"."table_name"
AS TEXT)) AS REGCLASS) AS OID), "c"."ordinal_position") AS "field-comment", (("column_default" IS
NULL) OR (LOWER("column_default") = 'null')) AND ("is_nullable" = 'NO') AND NOT
((("column_default" IS NOT NULL) AND ("column_default" LIKE '%nextval(%')) OR ("is_identity" <>
'NO')) AS "database-required", (("column_default" IS NOT NULL) AND ("column_default" LIKE
'%nextval(%')) OR ("is_identity" <> 'NO') AS "database-is-auto-increment" FROM
"information_schema"."columns" AS "c" LEFT JOIN (SELECT "tc"."table_schema", "tc"."table_name",
"kc"."column_name" FROM "information_schema"."table_constraints" AS "tc" INNER JOIN
"information_schema"."key_column_usage" AS "kc" ON ("tc"."constraint_name" =
"kc"."constraint_name") AND ("tc"."table_schema" = "kc"."table_schema") WHERE
"tc"."constraint_type" = 'PRIMARY KEY') AS "pk" ON ("c"."table_schema" = "pk"."table_schema") AND
("c"."table_name" = "pk"."table_name") WHERE c.table_schema !~
'^information_schema|catalog_history|pg_' AND ("c"."table_schema" IN ('public')) UNION ALL SELECT
"pa"."attname" AS "name", CASE WHEN "ptn"."nspname" IN ('public','pg_catalog') THEN FORMAT('%s',
"pt"."typname") ELSE FORMAT('"%s"."%s"', "ptn"."nspname", "pt"."typname") END AS "database-type",
"pa"."attnum" - 1 AS "database-position", "pn"."nspname" AS "table-schema", "pc"."relname" AS
"table-name", FALSE AS "pk?", NULL AS "field-comment", FALSE AS "database-required", FALSE AS
"database-is-auto-increment" FROM "pg_catalog"."pg_class" AS "pc" INNER JOIN
"pg_catalog"."pg_namespace" AS "pn" ON "pn"."oid" = "pc"."relnamespace" INNER JOIN
"pg_catalog"."pg_attribute" AS "pa" ON "pa"."attrelid" = "pc"."oid" INNER JOIN
"pg_catalog"."pg_type" AS "pt" ON "pt"."oid" = "pa"."atttypid" INNER JOIN
"pg_catalog"."pg_namespace" AS "ptn" ON "ptn"."oid" = "pt"."typnamespace" WHERE ("pc"."relkind" =
'm') AND ("pa"."attnum" >= 1) ORDER BY "table-schema" ASC, "table-name" ASC, "database-position"
ASC;

SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname;

SELECT now(), current_timestamp;

SHOW TimeZone;

SELECT 1 WHERE false;

SELECT tablename FROM pg_tables WHERE schemaname = current_schema();

SELECT d.datname FROM pg_database d WHERE d.datallowconn AND NOT d.datistemplate ORDER BY 1;

SELECT table_schema, table_name, column_name FROM information_schema.columns WHERE table_schema
NOT IN ('information_schema','pg_catalog') LIMIT 2;

SELECT count(*) FROM information_schema.tables;

SELECT EXISTS (SELECT FROM information_schema.tables WHERE table_name = 'people');

SELECT relname::varchar(10), pg_size_pretty(pg_relation_size(oid)), reltuples::bigint FROM
pg_class;

SELECT oid, typname FROM pg_type WHERE typname IN ('hstore','json');
