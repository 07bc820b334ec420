WITH stop AS (
         SELECT shipment_id, list({seen_at: seen_at, warehouse: {city: city}} ORDER BY seen_at DESC)[:2] AS stops
         FROM Stops JOIN Warehouses USING (warehouse_id) WHERE status = 'sorted' GROUP BY ALL
     ),
     parcel AS (
         SELECT order_id, list({shipment_id: shipment_id, carrier: {name: c.name}, stops: coalesce(stops, [])} ORDER BY shipment_id) AS shipments
         FROM Shipments JOIN Carriers c USING (carrier_id) LEFT JOIN stop USING (shipment_id) GROUP BY ALL
     ),
     item AS (SELECT order_id, [{sku: i.sku, quantity: i.quantity} FOR i IN items] AS items FROM Orders),
     customer_order AS (
         SELECT customer_id,
             list({order_id: order_id, total: total, items: items, shipments: coalesce(shipments, [])} ORDER BY ordered_at DESC)[:2] AS orders
         FROM PricedOrders JOIN item USING (order_id) LEFT JOIN parcel USING (order_id) GROUP BY ALL
     )
SELECT name, coalesce(orders, []) AS orders
FROM CurrentCustomers LEFT JOIN customer_order USING (customer_id)
WHERE city IN ('Ghent', 'Porto') ORDER BY customer_id LIMIT 4
