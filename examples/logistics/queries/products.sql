SELECT sku, revenue, lines[:2] AS lines
FROM Products JOIN (
    SELECT i.sku, list({order_id: order_id, quantity: i.quantity} ORDER BY ordered_at DESC) AS lines
    FROM (SELECT order_id, ordered_at, unnest(items) AS i FROM Orders) WHERE i.quantity >= 4 GROUP BY ALL
) USING (sku)
ORDER BY revenue DESC LIMIT 3
