-- Sixteen queries over five bursty streams of sensor readings, after the experiment of "Scheduling Strategies for
-- Processing Continuous Queries over Streams" (Jiang, Chakravarthy 2003), which names their number, that of the streams
-- and up to how many joins a query has; which query joins what is ours. A query here joins, so the paper's queries that only select are joins of two streams with sharp
-- selections and a short window (q1 to q4). Five more join two streams, four three, one four and two five, some by one
-- key for all streams, some by two.
CREATE STREAM S1 (k INT, j INT, sensor INT, reading DOUBLE, Ts TIMESTAMP)
  WITH (format = 'parquet', path = 'in/S1', time = 'Ts', rate = 6000, keys = 1000);
CREATE STREAM S2 (k INT, j INT, sensor INT, reading DOUBLE, Ts TIMESTAMP)
  WITH (format = 'parquet', path = 'in/S2', time = 'Ts', rate = 5000, keys = 1000);
CREATE STREAM S3 (k INT, j INT, sensor INT, reading DOUBLE, Ts TIMESTAMP)
  WITH (format = 'parquet', path = 'in/S3', time = 'Ts', rate = 4000, keys = 1000);
CREATE STREAM S4 (k INT, j INT, sensor INT, reading DOUBLE, Ts TIMESTAMP)
  WITH (format = 'parquet', path = 'in/S4', time = 'Ts', rate = 3000, keys = 1000);
CREATE STREAM S5 (k INT, j INT, sensor INT, reading DOUBLE, Ts TIMESTAMP)
  WITH (format = 'parquet', path = 'in/S5', time = 'Ts', rate = 2000, keys = 1000);

-- Sharp selections, short windows.
CREATE QUERY q1 AS
SELECT S1.k, S1.reading AS a, S2.reading AS b
FROM S1 JOIN S2 ON S1.k = S2.k
WHERE S1.reading < 0.10 AND S2.reading < 0.20
WINDOW 50 MILLISECONDS;

CREATE QUERY q2 AS
SELECT S1.k, S1.reading AS a, S3.reading AS b
FROM S1 JOIN S3 ON S1.k = S3.k
WHERE S1.reading > 0.85 AND S3.reading < 0.50
WINDOW 50 MILLISECONDS;

CREATE QUERY q3 AS
SELECT S2.k, S2.reading AS a, S4.reading AS b
FROM S2 JOIN S4 ON S2.k = S4.k
WHERE S2.reading < 0.30 AND S4.reading < 0.90
WINDOW 50 MILLISECONDS;

CREATE QUERY q4 AS
SELECT S3.k, S3.reading AS a, S5.reading AS b
FROM S3 JOIN S5 ON S3.k = S5.k
WHERE S3.reading < 0.60 AND S5.reading > 0.40
WINDOW 50 MILLISECONDS;

-- One join.
CREATE QUERY q5 AS
SELECT S1.k, S1.reading AS a, S2.reading AS b
FROM S1 JOIN S2 ON S1.k = S2.k
WHERE S1.reading < 0.50 AND S2.reading < 0.55 AND S1.sensor + S2.sensor < 120
WINDOW 500 MILLISECONDS;

CREATE QUERY q6 AS
SELECT S1.k, S1.reading AS a, S4.reading AS b
FROM S1 JOIN S4 ON S1.k = S4.k
WHERE S1.reading < 0.20 AND S4.reading < 0.60 AND S1.sensor + S4.sensor < 80
WINDOW 400 MILLISECONDS;

CREATE QUERY q7 AS
SELECT S2.j, S2.reading AS a, S3.reading AS b
FROM S2 JOIN S3 ON S2.j = S3.j
WHERE S2.reading > 0.60 AND S3.reading < 0.35 AND S2.sensor + S3.sensor < 100
WINDOW 300 MILLISECONDS;

CREATE QUERY q8 AS
SELECT S3.k, S3.reading AS a, S4.reading AS b
FROM S3 JOIN S4 ON S3.k = S4.k
WHERE S3.reading < 0.45 AND S4.reading < 0.45 AND S3.sensor + S4.sensor < 140
WINDOW 500 MILLISECONDS;

CREATE QUERY q9 AS
SELECT S4.j, S4.reading AS a, S5.reading AS b
FROM S4 JOIN S5 ON S4.j = S5.j
WHERE S4.reading < 0.60 AND S5.reading < 0.60 AND S4.sensor + S5.sensor < 90
WINDOW 450 MILLISECONDS;

-- Two joins: by one key, and by two.
CREATE QUERY q10 AS
SELECT S1.k, S1.reading AS a, S2.reading AS b, S3.reading AS c
FROM S1 JOIN S2 ON S1.k = S2.k JOIN S3 ON S2.k = S3.k
WHERE S1.reading < 0.30 AND S2.reading < 0.40 AND S3.reading < 0.50 AND S1.sensor + S3.sensor < 120
WINDOW 400 MILLISECONDS;

CREATE QUERY q11 AS
SELECT S1.k, S1.reading AS a, S3.reading AS b, S5.reading AS c
FROM S1 JOIN S3 ON S1.k = S3.k JOIN S5 ON S3.k = S5.k
WHERE S1.reading < 0.25 AND S3.reading < 0.60 AND S5.reading < 0.60 AND S3.sensor + S5.sensor < 100
WINDOW 300 MILLISECONDS;

CREATE QUERY q12 AS
SELECT S2.k, S3.j, S1.reading AS a, S2.reading AS b, S3.reading AS c
FROM S1 JOIN S2 ON S1.k = S2.k JOIN S3 ON S2.j = S3.j
WHERE S1.reading < 0.50 AND S2.reading < 0.55 AND S3.reading < 0.20 AND S1.sensor + S3.sensor < 130
WINDOW 500 MILLISECONDS;

CREATE QUERY q13 AS
SELECT S3.k, S4.j, S3.reading AS a, S4.reading AS b, S5.reading AS c
FROM S3 JOIN S4 ON S3.k = S4.k JOIN S5 ON S4.j = S5.j
WHERE S3.reading < 0.45 AND S4.reading < 0.45 AND S5.reading < 0.60 AND S3.sensor + S5.sensor < 110
WINDOW 500 MILLISECONDS;

-- Three joins, by two keys.
CREATE QUERY q14 AS
SELECT S2.k, S4.j, S2.reading AS a, S3.reading AS b, S4.reading AS c, S5.reading AS d
FROM S2 JOIN S3 ON S2.k = S3.k JOIN S4 ON S3.j = S4.j JOIN S5 ON S4.j = S5.j
WHERE S2.reading < 0.30 AND S3.reading < 0.50 AND S4.reading < 0.60 AND S5.reading < 0.60
  AND S2.sensor + S5.sensor < 120
WINDOW 400 MILLISECONDS;

-- Four joins: by one key, and by two.
CREATE QUERY q15 AS
SELECT S1.k, S1.reading AS a, S2.reading AS b, S3.reading AS c, S4.reading AS d, S5.reading AS e
FROM S1 JOIN S2 ON S1.k = S2.k JOIN S3 ON S2.k = S3.k JOIN S4 ON S3.k = S4.k JOIN S5 ON S4.k = S5.k
WHERE S1.reading < 0.40 AND S2.reading < 0.50 AND S3.reading < 0.50 AND S4.reading < 0.60 AND S5.reading < 0.60
  AND S1.sensor + S5.sensor < 120
WINDOW 400 MILLISECONDS;

CREATE QUERY q16 AS
SELECT S2.k, S4.j, S1.reading AS a, S2.reading AS b, S3.reading AS c, S4.reading AS d, S5.reading AS e
FROM S1 JOIN S2 ON S1.k = S2.k JOIN S3 ON S2.k = S3.k JOIN S4 ON S3.j = S4.j JOIN S5 ON S4.j = S5.j
WHERE S1.reading < 0.50 AND S2.reading < 0.55 AND S3.reading < 0.40 AND S4.reading < 0.60 AND S5.reading < 0.50
  AND S2.sensor + S4.sensor < 120
WINDOW 400 MILLISECONDS;
