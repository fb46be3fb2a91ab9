-- A data centre watches temperature and humidity: seven teams ask about the same two streams.
CREATE STREAM Temperature (LocationId INT, Value DOUBLE, Ts TIMESTAMP)
  WITH (format = 'parquet', path = 'in/temperature', time = 'Ts', delay = '5 seconds', rate = 1000, keys = 20000);
CREATE STREAM Humidity (LocationId INT, Value DOUBLE, Ts TIMESTAMP)
  WITH (format = 'parquet', path = 'in/humidity', time = 'Ts', delay = '5 seconds', rate = 1000, keys = 20000);

CREATE QUERY alarm AS
SELECT T.LocationId, T.Value AS temperature, H.Value AS humidity
FROM Temperature T, Humidity H
WHERE T.LocationId = H.LocationId
WINDOW 1 SECOND;

CREATE QUERY comfort AS
SELECT T.LocationId, T.Value AS temperature, H.Value AS humidity
FROM Temperature T, Humidity H
WHERE T.LocationId = H.LocationId
WINDOW 100 SECONDS;

CREATE QUERY cooling AS
SELECT T.LocationId, T.Value AS temperature, H.Value AS humidity, T.Value - 0.2 * H.Value AS felt
FROM Temperature T, Humidity H
WHERE T.LocationId = H.LocationId
WINDOW 200 SECONDS;

CREATE QUERY drift AS
SELECT T.LocationId, T.Value AS temperature, H.Value AS humidity
FROM Humidity H JOIN Temperature T ON H.LocationId = T.LocationId
  AND H.Ts BETWEEN T.Ts - INTERVAL '300' SECOND AND T.Ts + INTERVAL '30' SECOND;

CREATE QUERY planning AS
SELECT T.LocationId, T.Value AS temperature, H.Value AS humidity
FROM Temperature T, Humidity H
WHERE T.LocationId = H.LocationId AND T.Value + H.Value > 100
WINDOW 400 SECONDS;

CREATE QUERY mould AS
SELECT T.LocationId, T.Value AS temperature, H.Value AS humidity
FROM Temperature T, Humidity H
WHERE T.LocationId = H.LocationId AND H.Value > 70
WINDOW 500 SECONDS;

CREATE QUERY hot_and_humid AS
SELECT T.LocationId, T.Value AS temperature, H.Value AS humidity
FROM Temperature T, Humidity H
WHERE T.LocationId = H.LocationId AND T.Value > 30 AND H.Value > 70
WINDOW 600 SECONDS;
