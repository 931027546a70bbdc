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
