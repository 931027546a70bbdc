-- What charts send about a dataset: -- TOOL: what it draws. Groups and numbers must be those that
-- DuckDB finds in the records; `-- as:` is the same for DuckDB where it has other words.

-- Grafana: $__timeGroup(d, '1d') with $__timeFilter(d)
SELECT floor(extract(epoch from d)/86400)*86400 AS "time", count(*) AS "n" FROM people WHERE d BETWEEN '2024-02-28T00:00:00Z' AND '2024-03-17T23:59:59.999Z' GROUP BY time ORDER BY time;
-- as: SELECT epoch(d) AS "time", count(*) AS n FROM people WHERE d BETWEEN '2024-02-28' AND '2024-03-17' GROUP BY 1 ORDER BY 1
-- Grafana: $__timeGroupAlias(d, '1w'), a series for each sex
SELECT floor(extract(epoch from d)/604800)*604800 AS "time", sex AS metric, count(*) AS "value" FROM people GROUP BY 1, 2 ORDER BY 1, 2;
-- Grafana: $__timeGroupAlias with TimescaleDB
SELECT time_bucket('604800.000s',d) AS "time", avg(age) AS "age" FROM people GROUP BY 1 ORDER BY 1;
-- as: SELECT time_bucket(INTERVAL 7 DAY, d) AS "time", avg(age) FROM people GROUP BY 1 ORDER BY 1
-- Grafana: $__unixEpochFilter and $__unixEpochGroup of seconds
SELECT floor((extract(epoch from d))/172800)*172800 AS "time", sum(age) AS s FROM people WHERE extract(epoch from d) >= 1709164800 AND extract(epoch from d) <= 1710374399 GROUP BY 1 ORDER BY 1;
-- Grafana: the query builder's table
SELECT COUNT(age) AS "n", sex FROM people GROUP BY sex ORDER BY sex ASC LIMIT 50;
-- Grafana: $__timeFrom() and $__timeTo()
SELECT sex, count(*) FROM people WHERE d >= '2024-03-01T00:00:00Z' AND d < '2024-03-08T00:00:00Z' GROUP BY sex ORDER BY 1;
-- as: SELECT sex, count(*) FROM people WHERE d >= '2024-03-01' AND d < '2024-03-08' GROUP BY sex ORDER BY 1

-- Metabase: by week
SELECT CAST(DATE_TRUNC('week', "public"."people"."d") AS date) AS "d", COUNT(*) AS "count" FROM "public"."people" GROUP BY CAST(DATE_TRUNC('week', "public"."people"."d") AS date) ORDER BY CAST(DATE_TRUNC('week', "public"."people"."d") AS date) ASC;
-- Metabase: weeks that begin on Sundays
SELECT CAST((CAST(DATE_TRUNC('week', (CAST("public"."people"."d" AS timestamp) + INTERVAL '1 day')) AS timestamp) + INTERVAL '-1 day') AS date) AS "d", COUNT(*) AS "count" FROM "public"."people" GROUP BY 1 ORDER BY 1 ASC;
-- Metabase: the last 14 days
SELECT "public"."people"."sex" AS "sex", AVG("public"."people"."age") AS "avg" FROM "public"."people" WHERE ("public"."people"."d" >= CAST((NOW() + INTERVAL '-14 day') AS date)) AND ("public"."people"."d" < CAST(NOW() AS date)) GROUP BY "public"."people"."sex" ORDER BY "public"."people"."sex" ASC;
-- as: SELECT sex, AVG(age) FROM people WHERE d >= DATE '2024-03-10' AND d < DATE '2024-03-24' GROUP BY sex ORDER BY sex
-- Metabase: by month of the year, and a bin of a number
SELECT CAST(extract(month from "public"."people"."d") AS integer) AS "d", (FLOOR(("public"."people"."age" / 5.0)) * 5.0) AS "age", COUNT(*) AS "count" FROM "public"."people" GROUP BY 1, 2 ORDER BY 1 ASC, 2 ASC;
-- Metabase: a share
SELECT CAST(SUM(CASE WHEN "public"."people"."sex" = 'Male' THEN 1 ELSE 0.0 END) AS DOUBLE PRECISION) / NULLIF(CAST(COUNT(*) AS DOUBLE PRECISION), 0.0) AS "share" FROM "public"."people";
-- Metabase: a question on a question
SELECT "source"."sex" AS "sex", SUM("source"."count") AS "sum" FROM (SELECT "public"."people"."sex" AS "sex", COUNT(*) AS "count" FROM "public"."people" GROUP BY "public"."people"."sex") AS "source" GROUP BY "source"."sex" ORDER BY "source"."sex" ASC;

-- Tableau: a month, with the number of records
SELECT DATE_TRUNC('MONTH', CAST("people"."d" AS TIMESTAMP)) AS "tmn:d:ok", SUM(1) AS "sum:Number of Records:ok" FROM "public"."people" "people" GROUP BY 1;
-- Tableau: years as numbers, an average of a whole number
SELECT CAST(TRUNC(EXTRACT(YEAR FROM "people"."d")) AS INTEGER) AS "yr:d:ok", AVG(CAST("people"."age" AS DOUBLE PRECISION)) AS "avg:age:ok" FROM "public"."people" "people" GROUP BY 1;
-- Tableau: a filter on days, and one on a number that records have
SELECT "people"."sex" AS "sex", COUNT(1) AS "cnt:sex:ok" FROM "public"."people" "people" WHERE ("people"."d" >= (TIMESTAMP '2024-03-01 00:00:00.000') AND "people"."d" <= (TIMESTAMP '2024-03-15 00:00:00.000')) GROUP BY 1 HAVING (COUNT(1) > -1000);
-- Tableau: a filter that keeps some
SELECT "people"."age" AS "age", SUM(1) AS "n" FROM "public"."people" "people" WHERE ("people"."sex" IN ('Female', 'Male')) GROUP BY 1 ORDER BY 1;
-- Tableau: one number
SELECT SUM("people"."age") AS "TEMP(sum)" FROM "public"."people" "people" HAVING (COUNT(1) > 0);
-- as: SELECT SUM(age) FROM people

-- Power BI: a bar for each
select "_"."sex", count(1) as "a0" from (select "_"."d", "_"."age", "_"."sex" from "public"."people" "_") "_" group by "_"."sex" limit 1000001;
-- Power BI: sums with a filter, both steps folded
select "rows"."sex" as "sex", sum("rows"."age") as "a0" from (select "_"."sex", "_"."age" from "public"."people" "_" where "_"."d" >= date '2024-03-04' and "_"."d" < date '2024-03-18') "rows" group by "sex" limit 1000001;
-- Power BI: an average, in the order of its groups
select "$Ordered"."sex", "$Ordered"."a0" from (select "rows"."sex" as "sex", avg("rows"."age") as "a0" from (select "sex", "age" from "public"."people" "$Table") "rows" group by "sex") "$Ordered" order by "$Ordered"."sex" limit 501;

-- Looker: days, newest first
SELECT
    (DATE(people.d )) AS "people.d_date",
    COUNT(*) AS "people.count"
FROM public.people  AS people
WHERE ((( people.d  ) >= (DATE('2024-03-01')) AND ( people.d  ) < (DATE('2024-03-15'))))
GROUP BY
    1
ORDER BY
    1 DESC
FETCH NEXT 500 ROWS ONLY;
-- as: SELECT d, COUNT(*) FROM people WHERE d >= '2024-03-01' AND d < '2024-03-15' GROUP BY 1
-- Looker: months as texts, a measure with a filter, one that is 0 without records
SELECT
    (TO_CHAR(DATE_TRUNC('month', people.d ), 'YYYY-MM')) AS "people.d_month",
    COUNT(CASE WHEN people.sex = 'Female' THEN 1 ELSE NULL END) AS "people.women",
    COALESCE(SUM(people.age ), 0) AS "people.ages"
FROM public.people  AS people
GROUP BY
    (DATE_TRUNC('month', people.d ))
ORDER BY
    1 DESC
LIMIT 500;
-- as: SELECT strftime(d, '%Y-%m') AS m, COUNT(*) FILTER (sex = 'Female'), SUM(age) FROM people GROUP BY 1
-- Looker: weeks by their first day, and the month of the year
SELECT
    (TO_CHAR(DATE_TRUNC('week', people.d ), 'YYYY-MM-DD')) AS "people.d_week",
    (EXTRACT(MONTH FROM people.d )::integer) AS "people.d_month_num",
    AVG(people.age ) AS "people.average_age"
FROM public.people  AS people
GROUP BY
    (DATE_TRUNC('week', people.d )),
    2
LIMIT 500;
-- as: SELECT strftime(DATE_TRUNC('week', d), '%Y-%m-%d') AS w, EXTRACT(MONTH FROM d) AS m, AVG(age) FROM people GROUP BY 1, 2
-- Looker: the last 14 complete days
SELECT people.sex AS "people.sex", COUNT(*) AS "people.count" FROM public.people AS people WHERE ((( people.d ) >= ((DATE_TRUNC('day', CURRENT_TIMESTAMP) + (-14 || ' day')::INTERVAL)) AND ( people.d ) < ((DATE_TRUNC('day', CURRENT_TIMESTAMP))))) GROUP BY 1;
-- as: SELECT sex, COUNT(*) FROM people WHERE d >= DATE '2024-03-10' AND d < DATE '2024-03-24' GROUP BY 1

-- Superset: a time series by month with a range
SELECT DATE_TRUNC('month', d) AS d, count(*) AS count FROM public.people WHERE d >= TO_TIMESTAMP('2024-02-26 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND d < TO_TIMESTAMP('2024-03-11 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('month', d) ORDER BY count DESC LIMIT 10000;
-- as: SELECT DATE_TRUNC('month', d) AS d, count(*) FROM people WHERE d >= '2024-02-26' AND d < '2024-03-11' GROUP BY 1
-- Superset: NOT IN, IS NOT NULL, two measures
SELECT sex AS sex, AVG(age) AS "AVG(age)", COUNT(*) AS count FROM public.people WHERE age NOT IN (21, 22) AND sex IS NOT NULL GROUP BY sex ORDER BY "AVG(age)" DESC LIMIT 100;
-- Superset: a chart of a virtual dataset
SELECT sex AS sex, sum(n) AS "SUM(n)" FROM (SELECT sex, d, COUNT(*) AS n FROM people GROUP BY sex, d) AS virtual_table GROUP BY sex ORDER BY "SUM(n)" DESC LIMIT 1000;
-- Superset: weeks that end on Sundays
SELECT DATE_TRUNC('week', DATE_TRUNC('day', d) + INTERVAL '1 day') + INTERVAL '-1 day' AS d, count(*) AS count FROM public.people GROUP BY DATE_TRUNC('week', DATE_TRUNC('day', d) + INTERVAL '1 day') + INTERVAL '-1 day';
-- Superset: weeks of a virtual dataset of counts by day
SELECT DATE_TRUNC('week', d) AS d, sum(n) AS "SUM(n)" FROM (SELECT d, sex, COUNT(*) AS n FROM people GROUP BY d, sex) AS virtual_table GROUP BY DATE_TRUNC('week', d) ORDER BY "SUM(n)" DESC LIMIT 1000;
-- Superset: months of a virtual dataset of counts by week, whose days have another name
SELECT DATE_TRUNC('month', w) AS w, sum(n) AS "SUM(n)" FROM (SELECT DATE_TRUNC('week', d) AS w, COUNT(*) AS n FROM people GROUP BY 1) AS virtual_table GROUP BY DATE_TRUNC('month', w) ORDER BY "SUM(n)" DESC LIMIT 1000;
-- Superset: a time range of a virtual dataset
SELECT sex AS sex, sum(n) AS "SUM(n)" FROM (SELECT d, sex, COUNT(*) AS n FROM people GROUP BY d, sex) AS virtual_table WHERE d >= TO_DATE('2024-03-04', 'YYYY-MM-DD') AND d < TO_DATE('2024-03-18', 'YYYY-MM-DD') GROUP BY sex ORDER BY "SUM(n)" DESC LIMIT 10;
-- as: SELECT sex, sum(n) FROM (SELECT d, sex, COUNT(*) AS n FROM people GROUP BY d, sex) AS t WHERE d >= '2024-03-04' AND d < '2024-03-18' GROUP BY sex ORDER BY 2 DESC
-- Superset: weeks in a time range of a virtual dataset of weeks
SELECT DATE_TRUNC('week', w) AS w, max(n) AS "MAX(n)" FROM (SELECT DATE_TRUNC('week', d) AS w, sex, COUNT(*) AS n FROM people GROUP BY 1, 2) AS virtual_table WHERE w >= TO_TIMESTAMP('2024-03-04 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND w < TO_TIMESTAMP('2024-03-18 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('week', w) ORDER BY "MAX(n)" DESC LIMIT 10;
-- as: SELECT DATE_TRUNC('week', d) AS w, max(n) FROM (SELECT DATE_TRUNC('week', d) AS d, sex, COUNT(*) AS n FROM people GROUP BY 1, 2) AS t WHERE d >= '2024-03-04' AND d < '2024-03-18' GROUP BY 1
-- Superset: the month of the year of a virtual dataset
SELECT EXTRACT(month FROM d) AS m, sum(n) AS "SUM(n)" FROM (SELECT d, COUNT(*) AS n FROM people GROUP BY d) AS virtual_table GROUP BY EXTRACT(month FROM d) ORDER BY 1 LIMIT 10;
