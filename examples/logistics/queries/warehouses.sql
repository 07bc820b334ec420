SELECT city, list({shipment_id: shipment_id, seen_at: seen_at, status: status} ORDER BY seen_at DESC)[:3] AS lately
FROM Warehouses JOIN Stops USING (warehouse_id)
WHERE warehouse_id <= 2 GROUP BY ALL ORDER BY city DESC
