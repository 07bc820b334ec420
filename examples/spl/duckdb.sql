-- Tables Trades and Quotes, with `_arrival`, the order in which their rows came. `-- view: Name` starts each.

-- view: LastTrades
WITH n AS (
         SELECT sym, price, shares, row_number() OVER (PARTITION BY sym ORDER BY _arrival) AS number,
                count(*) OVER (PARTITION BY sym) // 5 * 5 AS fired
         FROM Trades
     )
SELECT sym, sum(price * shares) / sum(shares) AS vwap, count(*) AS trades, arg_max(price, number) AS price
FROM n WHERE number <= fired AND number > fired - 20 AND fired >= 20 GROUP BY sym;

-- view: Minutes
WITH p AS (
         SELECT sym, price, shares, unnest(generate_series(
                    time_bucket(INTERVAL 20 SECOND, time) - INTERVAL 40 SECOND, time_bucket(INTERVAL 20 SECOND, time), INTERVAL 20 SECOND
                )) AS since
         FROM Trades
     )
SELECT sym, since, since + INTERVAL 60 SECOND AS until, sum(price * shares) / sum(shares) AS vwap, sum(shares)::BIGINT AS volume
FROM p WHERE since + INTERVAL 60 SECOND <= (SELECT max(time) FROM Trades) GROUP BY ALL;

-- view: Bars
WITH n AS (SELECT *, (row_number() OVER (PARTITION BY sym ORDER BY _arrival) - 1) // 10 AS bar FROM Trades)
SELECT sym, arg_min(price, _arrival) AS opened, max(price) AS high, min(price) AS low, arg_max(price, _arrival) AS closed,
       sum(shares)::BIGINT AS volume
FROM n GROUP BY sym, bar HAVING count(*) = 10;

-- view: Largest
WITH n AS (SELECT *, (row_number() OVER (PARTITION BY sym ORDER BY _arrival) - 1) // 10 AS bar FROM Trades),
     b AS (SELECT sym, sum(shares)::BIGINT AS volume, max(_arrival) AS closing FROM n GROUP BY sym, bar HAVING count(*) = 10),
     l AS (SELECT * FROM b ORDER BY closing DESC LIMIT 8)
SELECT arg_max(sym, (volume, -closing)) AS sym, max(volume) AS volume FROM l HAVING count(*) > 0;

-- view: LastQuotes
SELECT sym, arg_max(bid, _arrival) AS bid, arg_max(ask, _arrival) AS ask FROM Quotes GROUP BY sym;

-- view: Distances
WITH n AS (
         SELECT sym, price, shares, row_number() OVER (PARTITION BY sym ORDER BY _arrival) AS number,
                count(*) OVER (PARTITION BY sym) // 5 * 5 AS fired
         FROM Trades
     ),
     t AS (
         SELECT sym, sum(price * shares) / sum(shares) AS vwap
         FROM n WHERE number <= fired AND number > fired - 20 AND fired >= 20 GROUP BY sym
     ),
     q AS (SELECT sym, (arg_max(bid, _arrival) + arg_max(ask, _arrival)) / 2 AS middle FROM Quotes GROUP BY sym)
SELECT sym, vwap, vwap - middle AS distance FROM t JOIN q USING (sym);
