SELECT COUNT(*) FROM adult
SELECT COUNT(*), COUNT(occupation), COUNT(workclass), COUNT(native-country) FROM adult
SELECT COUNT(*) FROM adult WHERE occupation <> 'Sales'
SELECT COUNT(*) FROM adult WHERE occupation NOT IN ('Sales', 'Tech-support') AND native-country = 'United-States'
SELECT COUNT(*) FROM adult WHERE NOT (workclass = 'Private' OR age < 30)
SELECT COUNT(*) FROM adult WHERE workclass IS NULL AND occupation IS NOT NULL
SELECT occupation, COUNT(*) AS n FROM adult GROUP BY occupation ORDER BY n DESC
SELECT sex, AVG(age), AVG(hours-per-week) FROM adult GROUP BY sex
SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) FROM adult GROUP BY decade ORDER BY decade
SELECT CASE WHEN age < 25 THEN 'young' WHEN age < 60 THEN 'mid' ELSE 'old' END AS band, sex, COUNT(*) FROM adult GROUP BY 1, 2
SELECT sex, SUM(CASE WHEN income = '>50K' THEN 1 ELSE 0 END) AS rich, COUNT(*) AS n FROM adult GROUP BY sex
SELECT relationship, COUNT(*) AS n FROM adult GROUP BY relationship HAVING COUNT(*) > 3000 ORDER BY n DESC LIMIT 3
SELECT sex, STDDEV(age), VAR_POP(hours-per-week) FROM adult GROUP BY sex
SELECT CORR(age, hours-per-week) FROM adult
WITH men AS (SELECT * FROM adult WHERE sex = 'Male') SELECT education, COUNT(*) FROM men WHERE hours-per-week >= 40 GROUP BY education
SELECT t.education, t.n FROM (SELECT education, COUNT(*) AS n FROM adult GROUP BY education) t WHERE t.n > 1000 ORDER BY t.n DESC LIMIT 4
SELECT COUNT(*) FROM adult WHERE education LIKE '%th' OR education ILIKE 'bach%'
SELECT UPPER(sex) AS s, COUNT(*) FROM adult GROUP BY UPPER(sex)
SELECT COALESCE(occupation, 'none') AS occ, COUNT(*) FROM adult GROUP BY 1
SELECT COALESCE(workclass, 'unknown') AS w, AVG(age) FROM adult GROUP BY 1
SELECT workclass IS NULL AS missing, COUNT(*) FROM adult GROUP BY 1
SELECT COUNT(*) FROM adult WHERE (sex, income) IN (('Female', '>50K'), ('Male', '<=50K'))
SELECT SUM(hours-per-week) / SUM(education-num) FROM adult
SELECT SUM(hours-per-week * education-num) / SUM(hours-per-week) FROM adult
SELECT AVG(CASE WHEN income = '>50K' THEN 1.0 ELSE 0.0 END) FROM adult WHERE sex = 'Female'
SELECT COUNT(*) FROM adult WHERE occupation IS DISTINCT FROM 'Sales'
SELECT COUNT(*) FROM adult WHERE (occupation = 'Sales') IS NOT TRUE
SELECT COUNT(*) FROM adult WHERE NULLIF(occupation, 'Sales') IS NULL
SELECT COUNT(*) FROM adult WHERE CASE WHEN age >= 65 THEN sex = 'Female' ELSE income = '>50K' END
SELECT age % 2 AS odd, COUNT(*) FROM adult GROUP BY 1
SELECT COUNT(*) FROM adult WHERE age + education-num > 60
SELECT COUNT(*) FROM adult WHERE hours-per-week > age
SELECT COUNT(*) FROM adult WHERE ABS(age - 40) <= 5
SELECT AVG(ABS(hours-per-week - 40)) FROM adult
SELECT education-num, COUNT(*) FROM adult GROUP BY education-num ORDER BY education-num
SELECT LEFT(education, 1) AS l, COUNT(*) FROM adult GROUP BY 1 ORDER BY 2 DESC
SELECT sex || '-' || income AS k, COUNT(*) FROM adult GROUP BY 1
SELECT occupation, AVG(hours-per-week) AS h FROM adult GROUP BY occupation ORDER BY h DESC LIMIT 3
SELECT income AS income, COUNT(*) AS count FROM adult WHERE sex IN ('Female') AND age >= 20 AND age < 30 GROUP BY income ORDER BY count DESC LIMIT 100
SELECT COUNT(CASE WHEN sex = 'Female' AND income = '>50K' THEN 1 END)::float / NULLIF(COUNT(CASE WHEN sex = 'Female' THEN 1 END), 0) AS r FROM adult
SELECT education, COUNT(*) FILTER (WHERE sex = 'Female') AS w, COUNT(*) FILTER (WHERE sex = 'Male') AS m, COUNT(*) FILTER (WHERE sex = 'Male') - COUNT(*) FILTER (WHERE sex = 'Female') AS d FROM adult GROUP BY education
SELECT COUNT(*) FROM adult WHERE age >= 30 AND NOT age > 40 AND occupation NOT LIKE '%-%'
SELECT COUNT(*) FROM adult WHERE occupation LIKE 'Exec%' OR occupation IS NULL
SELECT IF(age >= 40, '40+', 'below') AS g, COUNT(*) FROM adult GROUP BY 1
SELECT education, COUNT(*) FROM adult WHERE income = '>50K' GROUP BY education ORDER BY COUNT(*) DESC LIMIT 5 OFFSET 2
SELECT COUNT(*) FROM adult WHERE capital-gain > 0
SELECT COUNT(*) FROM adult WHERE LENGTH(occupation) > 10
SELECT workclass, COUNT(*) FROM adult WHERE workclass NOT IN ('Private') GROUP BY workclass
SELECT GREATEST(age, 30) AS g, COUNT(*) FROM adult GROUP BY 1
SELECT sex, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM adult) AS share FROM adult GROUP BY sex
SELECT SUM(age) FILTER (WHERE sex = 'Female') / COUNT(*) FILTER (WHERE sex = 'Female') FROM adult
SELECT AVG(hours-per-week) FILTER (WHERE income = '>50K') - AVG(hours-per-week) FILTER (WHERE income = '<=50K') FROM adult
SELECT TRUNC(age / 10) AS d, COUNT(*) FROM adult GROUP BY 1
SELECT education, AVG(age) AS a FROM adult GROUP BY education HAVING AVG(age) > 40 ORDER BY a
SELECT COUNT(*) FROM adult WHERE TRUE
SELECT COUNT(*) FROM adult WHERE 1 = 1 AND sex = 'Male'
SELECT ROUND(age / 10.0) AS d, COUNT(*) FROM adult GROUP BY 1
SELECT ROUND(age, -1) AS d, COUNT(*) FROM adult GROUP BY 1
SELECT SUM(sex = 'Male'), SUM((income = '>50K')::int), COUNT(age > 30) FROM adult
SELECT sex, AVG((income = '>50K')::int) AS r FROM adult GROUP BY sex
SELECT COUNT(*) FROM adult WHERE age BETWEEN education-num AND hours-per-week
SELECT ABS(age - 40) AS d, COUNT(*) FROM adult GROUP BY 1
SELECT CASE WHEN hours-per-week > age THEN 'more' ELSE 'less' END AS k, COUNT(*) FROM adult GROUP BY 1
SELECT AVG(age) FROM adult WHERE hours-per-week <> age
SELECT SUM(LEAST(hours-per-week, 40)) FROM adult
SELECT TRUNC(age, -1) AS d, COUNT(*) FROM adult GROUP BY 1
SELECT sex, AVG(age) + 2 * STDDEV_POP(age) FROM adult GROUP BY sex
SELECT sex, AVG(age) FILTER (WHERE income = '>50K') - AVG(age) AS d FROM adult GROUP BY sex
SELECT IFNULL(occupation, 'none') AS o, COUNT(*) FROM adult GROUP BY 1
SELECT education AS e, COUNT(*) c FROM adult GROUP BY e ORDER BY c DESC LIMIT 3
SELECT COUNT(*) FILTER (WHERE income = '>50K')::numeric / COUNT(*)::numeric AS r FROM adult
SELECT COUNT(*) FROM adult WHERE age::text = '30'
SELECT education, COUNT(*) FROM adult GROUP BY education HAVING COUNT(*) BETWEEN 400 AND 1000
SELECT SUBSTRING(education, 1, 2) AS s, COUNT(*) FROM adult GROUP BY 1
SELECT CONCAT(sex, ' ', race) AS k, COUNT(*) FROM adult GROUP BY 1
SELECT COUNT(*) FROM adult WHERE occupation IN ('Sales', NULL)
SELECT COUNT(NULLIF(occupation, 'Sales')) FROM adult
SELECT COUNT(*) * 100.0 / (SELECT COUNT(*) FROM adult) AS p FROM adult WHERE sex = 'Female'
SELECT education, AVG(age) AS mean_age FROM adult GROUP BY education HAVING COUNT(*) > 500 ORDER BY 2 DESC LIMIT 5
WITH g AS (SELECT education, COUNT(*) AS n FROM adult GROUP BY education) SELECT education, n, n * 1.0 / (SELECT SUM(n) FROM g) AS share FROM g ORDER BY n DESC
WITH a AS (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex), b AS (SELECT sex, COUNT(*) AS rich FROM adult WHERE income = '>50K' GROUP BY sex) SELECT a.sex, b.rich * 1.0 / a.n AS rate FROM a JOIN b ON a.sex = b.sex
WITH a AS (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex), b AS (SELECT sex, AVG(age) AS m FROM adult GROUP BY sex) SELECT a.sex, a.n, b.m FROM a LEFT JOIN b USING (sex)
SELECT sex, race, COUNT(*) FROM adult GROUP BY ROLLUP (sex, race)
SELECT sex, race, COUNT(*), GROUPING(sex) AS gs FROM adult GROUP BY GROUPING SETS ((sex), (race), ())
SELECT COUNT(*) FILTER (WHERE sex = 'Female') AS f, COUNT(*) FILTER (WHERE sex = 'Male') AS m FROM adult
SELECT SUM(IF(sex = 'Female', 1, 0)) AS f FROM adult
SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) FROM adult GROUP BY 1 ORDER BY 1
SELECT age // 10 AS d, COUNT(*) FROM adult GROUP BY 1
SELECT COUNT(DISTINCT education) FROM adult
SELECT COUNT(DISTINCT occupation) FROM adult WHERE sex = 'Female'
SELECT COVAR_POP(age, hours-per-week) FROM adult
SELECT REGR_SLOPE(hours-per-week, age) FROM adult
SELECT REGR_INTERCEPT(hours-per-week, age), REGR_R2(hours-per-week, age) FROM adult
SELECT VAR_SAMP(age), STDDEV_POP(age) FROM adult
SELECT STDDEV(age) / AVG(age) AS cv FROM adult
SELECT SQRT(VARIANCE(age)) FROM adult
SELECT AVG(age * 1.0) FROM adult
SELECT AVG(CASE WHEN income = '>50K' THEN 1.0 ELSE 0.0 END) FROM adult
SELECT AVG((income = '>50K')::int) AS rate FROM adult
SELECT SUM(hours-per-week) / COUNT(*) FROM adult
SELECT SUM(age * hours-per-week) / SUM(hours-per-week) FROM adult
SELECT LN(COUNT(*)) FROM adult
SELECT education, LOG10(COUNT(*)) AS l FROM adult GROUP BY education
SELECT ABS(COUNT(*) FILTER (WHERE sex='Male') - COUNT(*) FILTER (WHERE sex='Female')) FROM adult
SELECT COUNT(*) FROM (SELECT education FROM adult GROUP BY education HAVING COUNT(*) > 1000) t
SELECT SUM(n) FROM (SELECT education, COUNT(*) AS n FROM adult WHERE age > 30 GROUP BY education) t WHERE education LIKE '%th'
SELECT a.education, COUNT(*) FROM adult a WHERE a.age BETWEEN 20 AND 30 GROUP BY a.education
SELECT sex, COUNT(*) FROM adult WHERE occupation IS NULL GROUP BY sex
SELECT COALESCE(occupation, 'none') AS o, COUNT(*) FROM adult GROUP BY 1
SELECT COUNT(*) - COUNT(occupation) AS missing FROM adult
SELECT COUNT(*) FROM adult WHERE NOT (occupation = 'Sales' OR workclass = 'Private')
SELECT COUNT(*) FROM adult WHERE occupation NOT IN ('Sales', 'Tech-support')
SELECT COUNT(*) FROM adult WHERE occupation NOT LIKE '%a%'
SELECT COUNT(*) FROM adult WHERE LOWER(education) LIKE 'b%' AND UPPER(sex) = 'MALE'
SELECT COUNT(*) FROM adult WHERE education ~ '^[0-9]'
SELECT COUNT(*) FROM adult WHERE REGEXP_MATCHES(education, '^[0-9]')
SELECT COUNT(*) FROM adult WHERE education SIMILAR TO '[0-9]+th'
SELECT COUNT(*) FROM adult WHERE CONTAINS(education, 'th')
SELECT COUNT(*) FROM adult WHERE education ILIKE '%COLLEGE%'
SELECT SUBSTR(education, 1, 2) AS s, COUNT(*) FROM adult GROUP BY s
SELECT LENGTH(education) AS l, COUNT(*) FROM adult GROUP BY 1
SELECT SPLIT_PART(education, '-', 1) AS s, COUNT(*) FROM adult GROUP BY 1
SELECT REVERSE(sex) AS s, COUNT(*) FROM adult GROUP BY 1
SELECT LPAD(sex, 3, 'x') AS s, COUNT(*) FROM adult GROUP BY 1
SELECT CONCAT(sex, ' / ', race) AS g, COUNT(*) FROM adult GROUP BY 1
SELECT CONCAT_WS('-', sex, income) AS g, COUNT(*) FROM adult GROUP BY 1
SELECT sex || '-' || income AS g, COUNT(*) FROM adult GROUP BY 1
SELECT COUNT(*) FROM adult WHERE age % 2 = 0
SELECT COUNT(*) FROM adult WHERE MOD(age, 10) = 0
SELECT COUNT(*) FROM adult WHERE POWER(age, 2) > 2500
SELECT SUM(POWER(age, 2)) FROM adult
SELECT SUM(age * age) FROM adult
SELECT COUNT(*) FROM adult WHERE SQRT(age) > 6
SELECT COUNT(*) FROM adult WHERE age * 2 > hours-per-week
SELECT COUNT(*) FROM adult WHERE age > hours-per-week
SELECT AVG(GREATEST(age, 30)) FROM adult
SELECT AVG(ABS(age - 40)) FROM adult
SELECT SIGN(age - 40) AS s, COUNT(*) FROM adult GROUP BY 1
SELECT SUM(age) FILTER (WHERE sex = 'Male') / COUNT(*) FILTER (WHERE sex = 'Male') FROM adult
SELECT sex, COUNT(*) FROM adult GROUP BY sex UNION ALL SELECT 'all', COUNT(*) FROM adult
SELECT 'F' AS what, COUNT(*) FROM adult WHERE sex='Female' UNION SELECT 'M', COUNT(*) FROM adult WHERE sex='Male'
SELECT sex, income, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER (PARTITION BY sex) AS pct FROM adult GROUP BY sex, income
SELECT race, SUM(CASE WHEN sex='Male' THEN 1 END) AS m, SUM(CASE WHEN sex='Female' THEN 1 END) AS f FROM adult GROUP BY race
SELECT race, COUNT(CASE WHEN sex='Male' THEN 1 END) * 1.0 / NULLIF(COUNT(CASE WHEN sex='Female' THEN 1 END), 0) AS ratio FROM adult GROUP BY race
SELECT "source"."sex" AS "sex", AVG("source"."age") AS "avg" FROM (SELECT * FROM "adult" WHERE "adult"."age" > 25) "source" GROUP BY "source"."sex" ORDER BY "source"."sex"
SELECT CAST("adult"."age" AS TEXT) AS a, COUNT(1) FROM "adult" GROUP BY 1
SELECT FLOOR(("adult"."age" / 12.5)) * 12.5 AS "age", COUNT(*) AS "count" FROM "adult" GROUP BY FLOOR(("adult"."age" / 12.5)) * 12.5 ORDER BY 1
SELECT FLOOR(((age - 0.0) / 10.0)) * 10 + 0.0 AS "age", COUNT(*) FROM adult GROUP BY 1 ORDER BY 1
SELECT sex AS sex, AVG(age) AS "AVG(age)" FROM (SELECT * FROM adult WHERE income = '>50K') AS virtual_table GROUP BY sex ORDER BY "AVG(age)" DESC LIMIT 1000
SELECT education, COUNT(*) n FROM adult GROUP BY education ORDER BY n DESC FETCH FIRST 5 ROWS ONLY
SELECT education, COUNT(*) n FROM adult GROUP BY education ORDER BY n DESC OFFSET 2 LIMIT 3
SELECT education, COUNT(*) n FROM adult GROUP BY ALL ORDER BY n
SELECT t.g, t.n FROM (SELECT sex AS g, COUNT(*) AS n FROM adult GROUP BY sex) AS t WHERE t.n > 100
SELECT sex, SUM(n) FROM (SELECT sex, race, COUNT(*) AS n FROM adult GROUP BY sex, race) x GROUP BY sex
SELECT sex, AVG(age) - (SELECT AVG(age) FROM adult) AS diff FROM adult GROUP BY sex
SELECT (SELECT COUNT(*) FROM adult WHERE sex='Male') * 1.0 / (SELECT COUNT(*) FROM adult) AS share
SELECT COUNT(*) AS n, COUNT(*) * 100 / (SELECT COUNT(*) FROM adult) AS pct FROM adult WHERE age > 60
SELECT IFNULL(workclass, 'n/a') w, COUNT(*) FROM adult GROUP BY w
SELECT COUNT(*) FROM adult WHERE (sex, race) IN (('Male', 'White'), ('Female', 'Black'))
SELECT COUNT(*) FROM adult WHERE sex = ANY(ARRAY['Male','Female'])
SELECT sex, COUNT(*) FROM adult GROUP BY sex HAVING AVG(age) > 37
SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex ORDER BY AVG(age)
SELECT education, COUNT(*) AS n, n * 2 AS twice FROM adult GROUP BY education
SELECT SUM(age) / NULLIF(SUM(hours-per-week), 0) FROM adult
SELECT 100.0 * SUM(CASE WHEN income='>50K' THEN 1 ELSE 0 END) / COUNT(*) AS pct, education FROM adult GROUP BY education HAVING COUNT(*) >= 100 ORDER BY pct DESC LIMIT 3
SELECT sex, COVAR_SAMP(age, hours-per-week) FROM adult GROUP BY sex
SELECT sex, REGR_INTERCEPT(hours-per-week, age), REGR_R2(hours-per-week, age) FROM adult GROUP BY sex
SELECT 'F' AS what, COUNT(*) AS n FROM adult WHERE sex='Female' UNION SELECT 'M', COUNT(*) FROM adult WHERE sex='Male'
SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex UNION SELECT 'all', COUNT(*) FROM adult ORDER BY n
SELECT COUNT(*) FROM adult WHERE NOT occupation > 'M'
SELECT COUNT(*) FROM adult WHERE occupation NOT BETWEEN 'A' AND 'M'
SELECT occupation >= 'P' AS late, COUNT(*) AS n FROM adult GROUP BY 1
SELECT COUNT(*) FROM adult WHERE education IN (SELECT education FROM adult GROUP BY education HAVING COUNT(*) > 1000)
SELECT COUNT(*) FROM adult WHERE education IN (SELECT education FROM adult GROUP BY education ORDER BY COUNT(*) DESC LIMIT 5)
SELECT sex, COUNT(*) FROM adult WHERE education NOT IN (SELECT education FROM adult GROUP BY education HAVING COUNT(*) > 1000) GROUP BY sex
SELECT sex, AVG(age) FROM adult WHERE occupation IN (SELECT occupation FROM adult GROUP BY occupation ORDER BY COUNT(*) DESC LIMIT 3) GROUP BY sex ORDER BY 2
SELECT COUNT(*) FROM adult WHERE occupation NOT IN (SELECT occupation FROM adult GROUP BY occupation HAVING COUNT(*) > 2000)
SELECT COUNT(*) FROM adult WHERE workclass NOT IN (SELECT workclass FROM adult GROUP BY workclass HAVING COUNT(*) > 3000)
WITH big AS (SELECT education, COUNT(*) AS n FROM adult WHERE sex = 'Female' GROUP BY education) SELECT income, COUNT(*), SUM(hours-per-week) FROM adult WHERE education IN (SELECT education FROM big WHERE n > 700) GROUP BY income
SELECT CASE WHEN education IN (SELECT education FROM adult GROUP BY education HAVING COUNT(*) > 1500) THEN education ELSE 'rest' END AS e, COUNT(*) FROM adult GROUP BY 1
SELECT COUNT(*) FROM adult WHERE FLOOR(age / 10) = (SELECT FLOOR(age / 10) FROM adult GROUP BY 1 ORDER BY COUNT(*) DESC LIMIT 1)
SELECT COUNT(*) FROM adult WHERE age = ANY (SELECT age FROM adult WHERE income = '>50K' GROUP BY age HAVING COUNT(*) BETWEEN 300 AND 400) OR sex IN (SELECT sex FROM adult GROUP BY sex ORDER BY COUNT(*) LIMIT 1)
SELECT education, COUNT(*) FILTER (WHERE age NOT IN (SELECT age FROM adult GROUP BY age HAVING COUNT(*) > 500)) AS n FROM adult GROUP BY education HAVING COUNT(*) > 1000 ORDER BY n DESC LIMIT 4
SELECT * FROM (SELECT education, COUNT(*) AS n FROM adult GROUP BY education) AS t WHERE education IN (SELECT education FROM adult WHERE sex = 'Male' GROUP BY education HAVING COUNT(*) > 1000)
SELECT education, COUNT(*) FROM adult GROUP BY education HAVING education <> ALL (SELECT education FROM adult WHERE sex = 'Male' GROUP BY education HAVING COUNT(*) > 1000)
SELECT COUNT(*) FROM adult WHERE education <> (SELECT education FROM adult GROUP BY education ORDER BY COUNT(*) DESC LIMIT 1) AND sex = (SELECT sex FROM adult GROUP BY sex HAVING COUNT(*) > 100000 ORDER BY COUNT(*) LIMIT 1)
SELECT 'many' AS w, COUNT(*) AS n FROM adult WHERE age IN (SELECT age FROM adult GROUP BY age HAVING COUNT(*) > 500) UNION ALL SELECT 'few', COUNT(*) FROM adult WHERE age NOT IN (SELECT age FROM adult GROUP BY age HAVING COUNT(*) > 500)
WITH w AS (SELECT * FROM adult WHERE education IN (SELECT education FROM adult GROUP BY education HAVING COUNT(*) > 1000)) SELECT sex, COUNT(*) AS n FROM w GROUP BY sex
SELECT MAX(n), MIN(n), MAX(n) - MIN(n) FROM (SELECT education, COUNT(*) AS n FROM adult GROUP BY education) t
SELECT sex, MAX(n) FROM (SELECT sex, race, COUNT(*) AS n FROM adult GROUP BY sex, race) t GROUP BY sex
SELECT sex, MAX(n) * 1.0 / SUM(n) AS part FROM (SELECT sex, occupation, COUNT(*) AS n FROM adult GROUP BY sex, occupation) t GROUP BY sex
SELECT education, COUNT(*) * 1.0 / MAX(COUNT(*)) OVER () AS part FROM adult GROUP BY education
SELECT sex, race, COUNT(*) AS n, COUNT(*) - MIN(COUNT(*)) OVER (PARTITION BY sex) AS more FROM adult WHERE sex IS NOT NULL AND race IS NOT NULL GROUP BY sex, race
SELECT age, COUNT(*) * 1.0 / MAX(COUNT(*)) OVER (ORDER BY age) AS part FROM adult WHERE age BETWEEN 20 AND 25 GROUP BY age
SELECT MAX(n) FROM (SELECT sex, race, COUNT(*) AS n FROM adult GROUP BY ROLLUP (sex, race)) t
SELECT MAX(n) FILTER (WHERE sex = 'Female') FROM (SELECT sex, race, COUNT(*) AS n FROM adult GROUP BY sex, race) t
SELECT MAX(m) FROM (SELECT sex, MIN(n) AS m FROM (SELECT sex, race, COUNT(*) AS n FROM adult GROUP BY sex, race) t GROUP BY sex) u
SELECT MAX(h) FROM (SELECT sex, AVG(hours-per-week) AS h FROM adult GROUP BY sex) t
SELECT GREATEST(COUNT_IF(sex = 'Male'), COUNT_IF(sex = 'Female'), 5), LEAST(AVG(age), AVG(hours-per-week)) FROM adult
SELECT 2 * ABS(COUNT_IF(sex = 'Female') - COUNT_IF(sex = 'Male')) + 1, ABS(AVG(age) - AVG(hours-per-week)) / 2 FROM adult
SELECT LN(GREATEST(COUNT(*), 1)), CBRT(COUNT(*)), LOG(3, COUNT(*)), SQRT(VARIANCE(age)), (SUM(age) / COUNT(*)) ^ 2 FROM adult
SELECT SKEWNESS(age), KURTOSIS(age), KURTOSIS_POP(age) FROM adult
SELECT sex, SKEWNESS(hours-per-week) FILTER (WHERE age > 30) AS s, KURTOSIS(education-num) AS k FROM adult WHERE sex IS NOT NULL GROUP BY sex
