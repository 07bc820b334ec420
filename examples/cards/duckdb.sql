-- Tables Transactions, Cardholders, Cards and Merchants, each with `_arrival`, the order in which its rows came, and `_day`, the day of the
-- file that they came in; and a macro `clock()`, the end of the last day: the bound of every stream. Each view may read those before it.
-- `-- view: Name` starts each.

-- view: LatePayments
SELECT id, card, merchant, amount, paid_at FROM Transactions
QUALIFY paid_at < _day OR paid_at < max(paid_at) OVER (ORDER BY _arrival ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) - INTERVAL 5 MINUTES;

-- view: Payments
SELECT t.id, t.paid_at, t.amount, t.card, h.holder, h.city, h.weekly_limit, m.merchant, m.name AS merchant_name, m.category
FROM (SELECT * FROM Transactions ANTI JOIN LatePayments USING (id)) t
    ASOF JOIN Cards c ON c.card = t.card AND c.changed_at <= t.paid_at
    ASOF JOIN Cardholders h ON h.holder = c.holder AND h.changed_at <= t.paid_at
    ASOF JOIN Merchants m ON m.merchant = t.merchant AND m.changed_at <= t.paid_at;

-- view: SpendingByDay
SELECT holder, date_trunc('day', paid_at) AS day, sum(amount) AS spent, count(*) AS payments FROM Payments GROUP BY ALL;

-- view: SpendingByMerchant
SELECT merchant, category, sum(amount) AS spent, count(*) AS payments FROM Payments GROUP BY ALL;

-- view: SpendingByCategory
SELECT holder, date_trunc('week', paid_at) AS week, category, sum(amount) AS spent, count(*) AS payments
FROM Payments WHERE date_trunc('week', paid_at) + INTERVAL 7 DAYS <= clock() GROUP BY ALL;

-- view: SpendingByWeek
SELECT holder, date_trunc('week', paid_at) AS week, sum(amount) AS spent, max(amount) AS largest, min(weekly_limit) AS weekly_limit
FROM Payments WHERE date_trunc('week', paid_at) + INTERVAL 7 DAYS <= clock() GROUP BY ALL;

-- view: Bursts
WITH ends AS (
    SELECT unnest(generate_series(TIMESTAMPTZ '2024-01-01', clock(), INTERVAL 15 MINUTES)) AS window_end
)
SELECT card, window_end, count(*) AS payments, sum(amount) AS spent
FROM Payments JOIN ends ON paid_at < window_end AND paid_at >= window_end - INTERVAL 1 HOUR
GROUP BY ALL HAVING count(*) >= 3;

-- view: OverLimit
SELECT holder, week, spent, weekly_limit FROM SpendingByWeek WHERE spent > weekly_limit;

-- view: Suspicious
SELECT card, window_end, payments, spent FROM Bursts;
