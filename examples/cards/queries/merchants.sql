WITH cardholder AS (SELECT * FROM Cardholders QUALIFY row_number() OVER (PARTITION BY holder ORDER BY changed_at DESC) = 1),
     merchant AS (SELECT * FROM Merchants QUALIFY row_number() OVER (PARTITION BY merchant ORDER BY changed_at DESC) = 1),
     payment AS (
         SELECT p.merchant, list({paid_at: paid_at, amount: amount, cardholder: {name: h.name, city: h.city}} ORDER BY paid_at DESC) AS payments
         FROM Payments p JOIN cardholder h USING (holder) WHERE amount >= 50 GROUP BY ALL
     )
SELECT name, coalesce(payments[:2], []) AS payments FROM merchant LEFT JOIN payment USING (merchant)
WHERE category = 'groceries' ORDER BY merchant LIMIT 3
