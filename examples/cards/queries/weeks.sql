SELECT holder, name,
    (SELECT {paid_at: paid_at, amount: amount, merchant_name: merchant_name}
     FROM Payments p WHERE p.holder = h.holder ORDER BY paid_at DESC LIMIT 1) AS lastPayment,
    coalesce([{week: w.week, spent: w.spent, categories:
        [{category: c.category, spent: c.spent} FOR c IN w.categories[:2]]} FOR w IN weeks[:2]], []) AS weeks
FROM (SELECT * FROM Cardholders QUALIFY row_number() OVER (PARTITION BY holder ORDER BY changed_at DESC) = 1) h
    LEFT JOIN (
        SELECT holder, list({week: week, spent: spent, categories: categories} ORDER BY week DESC) AS weeks
        FROM SpendingByWeek w JOIN (
            SELECT holder, week, list({category: category, spent: spent} ORDER BY spent DESC) AS categories
            FROM SpendingByCategory GROUP BY ALL
        ) USING (holder, week)
        WHERE w.spent > 2000 GROUP BY holder
    ) USING (holder)
WHERE city IN ('Ghent', 'Malmö') ORDER BY holder
