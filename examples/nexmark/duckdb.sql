-- The views of nexmark.sqrl as DuckDB says them, over tables Person, Auction, Bid (with _ingest_time) and SideInput. `-- view: Name` starts each.

-- view: Q0
SELECT auction, bidder, price, date_time, extra FROM Bid;

-- view: Q1
SELECT auction, bidder, 0.908 * price AS price_euro, date_time, extra FROM Bid;

-- view: Q2
SELECT auction, price FROM Bid WHERE auction % 123 = 0;

-- view: Q3
SELECT p.name, p.city, p.state, a.id FROM Auction a, Person p
WHERE a.seller = p.id AND a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA');

-- view: Q4
SELECT category, avg(final) AS avg_final
FROM (
    SELECT a.category, (SELECT max(price) FROM Bid b WHERE b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.expires) AS final
    FROM Auction a
)
WHERE final IS NOT NULL GROUP BY ALL;

-- view: Q5
WITH counts AS (
    SELECT wstart, wstart + INTERVAL 10 SECONDS AS wend, auction, count(*) AS bids
    FROM (SELECT auction, time_bucket(INTERVAL 2 SECONDS, date_time) - to_seconds(2 * i) AS wstart FROM Bid, range(5) r(i))
    GROUP BY ALL
)
SELECT * FROM counts QUALIFY bids = max(bids) OVER (PARTITION BY wstart);

-- view: Q6
WITH won AS (
    SELECT a.seller, a.id, b.price, b.date_time AS bid_time
    FROM Auction a JOIN Bid b ON b.auction = a.id AND b.date_time >= a.date_time AND b.date_time <= a.expires
    QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) = 1
)
SELECT seller, id, bid_time,
    (SELECT avg(price) FROM (SELECT price FROM won o WHERE o.seller = w.seller AND (o.bid_time, o.id) <= (w.bid_time, w.id)
        ORDER BY o.bid_time DESC, o.id DESC LIMIT 10)) AS avg_price
FROM won w;

-- view: Q7
SELECT auction, price, bidder, date_time, extra FROM Bid
QUALIFY price = max(price) OVER (PARTITION BY time_bucket(INTERVAL 10 SECONDS, date_time));

-- view: Q8
SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL 10 SECONDS, p.date_time) AS wstart FROM Person p
WHERE EXISTS (FROM Auction a WHERE a.seller = p.id
    AND time_bucket(INTERVAL 10 SECONDS, a.date_time) = time_bucket(INTERVAL 10 SECONDS, p.date_time));

-- view: Q9
SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS opened, a.expires, a.seller, a.category,
    b.auction, b.bidder, b.price, b.date_time AS bid_time, b.extra
FROM Auction a JOIN Bid b ON b.auction = a.id AND b.date_time >= a.date_time AND b.date_time <= a.expires
QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) = 1;

-- view: Q10
SELECT auction, bidder, price, date_time, extra, strftime(date_time, '%Y-%m-%d') AS log_day, strftime(date_time, '%H:%M') AS log_minute
FROM Bid;

-- view: Q11
WITH started AS (
    SELECT bidder, date_time,
        coalesce(date_time - lag(date_time) OVER (PARTITION BY bidder ORDER BY date_time) >= INTERVAL 10 SECONDS, true) AS begins
    FROM Bid
), numbered AS (
    SELECT bidder, date_time, sum(begins::INT) OVER (PARTITION BY bidder ORDER BY date_time ROWS UNBOUNDED PRECEDING) AS session
    FROM started
)
SELECT bidder, count(*) AS bids, min(date_time) AS wstart, max(date_time) + INTERVAL 10 SECONDS AS wend
FROM numbered GROUP BY bidder, session;

-- view: Q12
SELECT bidder, count(*) AS bids, time_bucket(INTERVAL 10 SECONDS, _ingest_time) AS wstart, wstart + INTERVAL 10 SECONDS AS wend
FROM Bid GROUP BY ALL;

-- view: Q13
SELECT b.auction, b.bidder, b.price, b.date_time, s.label FROM Bid b, SideInput s WHERE s.key = b.auction % 10000;

-- view: Q14
SELECT auction, bidder, 0.908 * price AS price_euro,
    CASE WHEN hour(date_time) >= 8 AND hour(date_time) <= 18 THEN 'dayTime'
         WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type,
    date_time, extra, len(regexp_extract_all(extra, 'c')) AS c_counts
FROM Bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;

-- view: Q15
SELECT strftime(date_time, '%Y-%m-%d') AS bid_day,
    count(*) AS total_bids,
    count(*) FILTER (price < 10000) AS rank1_bids,
    count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (price >= 1000000) AS rank3_bids,
    count(DISTINCT bidder) AS total_bidders,
    count(DISTINCT bidder) FILTER (price < 10000) AS rank1_bidders,
    count(DISTINCT bidder) FILTER (price >= 10000 AND price < 1000000) AS rank2_bidders,
    count(DISTINCT bidder) FILTER (price >= 1000000) AS rank3_bidders,
    count(DISTINCT auction) AS total_auctions,
    count(DISTINCT auction) FILTER (price < 10000) AS rank1_auctions,
    count(DISTINCT auction) FILTER (price >= 10000 AND price < 1000000) AS rank2_auctions,
    count(DISTINCT auction) FILTER (price >= 1000000) AS rank3_auctions
FROM Bid GROUP BY ALL;

-- view: Q16
SELECT channel, strftime(date_time, '%Y-%m-%d') AS bid_day,
    strftime(max(date_time), '%H:%M') AS last_minute,
    count(*) AS total_bids,
    count(*) FILTER (price < 10000) AS rank1_bids,
    count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (price >= 1000000) AS rank3_bids,
    count(DISTINCT bidder) AS total_bidders,
    count(DISTINCT bidder) FILTER (price >= 1000000) AS rank3_bidders,
    count(DISTINCT auction) AS total_auctions,
    count(DISTINCT auction) FILTER (price >= 1000000) AS rank3_auctions
FROM Bid GROUP BY ALL;

-- view: Q17
SELECT auction, strftime(date_time, '%Y-%m-%d') AS bid_day,
    count(*) AS total_bids,
    count(*) FILTER (price < 10000) AS rank1_bids,
    count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (price >= 1000000) AS rank3_bids,
    min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM Bid GROUP BY ALL;

-- view: Q18
SELECT auction, bidder, price, channel, url, date_time, extra
FROM Bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, price DESC, url DESC) = 1;

-- view: Q19
SELECT auction, bidder, price, channel, url, date_time, extra,
    row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder, url) AS place
FROM Bid QUALIFY place <= 10;

-- view: Q20
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time AS bid_time, b.extra AS bid_extra,
    a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS opened, a.expires, a.seller, a.category, a.extra
FROM Bid b, Auction a WHERE a.id = b.auction AND a.category = 10;

-- view: Q21
SELECT auction, bidder, price, channel,
    CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
        ELSE split_part(url, 'channel_id=', 2) END AS channel_id
FROM Bid WHERE contains(url, '&channel_id=') OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu');

-- view: Q22
SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
FROM Bid;
