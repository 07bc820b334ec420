SELECT l.shipment_id, l.promised_at, l.status,
    {sent_at: s.sent_at, delivery: NULL, carrier: {name: r.name}, "order": {customer: {name: c.name, city: c.city}}} AS shipment
FROM LateShipments l JOIN Shipments s USING (shipment_id) JOIN Carriers r ON r.carrier_id = s.carrier_id
    JOIN CurrentCustomers c USING (customer_id)
WHERE delivered_at IS NULL ORDER BY l.promised_at, l.shipment_id LIMIT 5
